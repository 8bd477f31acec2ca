"""Snapshots that PyTorch 2.1 to 2.15 wrote (`tests/data/snapshots`), against Python's own unpickler."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from gputui.explain.documents.memory_viz import snapshot_file
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.tensors import Category
from gputui.model.attached.trace import ACTIONS, Trace
from gputui.sources.files.torch_snapshot.frames import Frames, site_of
from gputui.sources.files.torch_snapshot.snapshot import NoSnapshotError, open_snapshot
from gputui.units import GIB
from tests.explain.moments import Tensor, moment, row

DATA = Path(__file__).resolve().parent.parent / "data" / "snapshots"
FILES = {path.stem: path for path in sorted(DATA.glob("*.pickle"))}


def own(path: Path) -> dict[str, Any]:
    return pickle.loads(path.read_bytes())


def python_frames(frames: list[dict[str, Any]]) -> tuple[CallSite, ...]:
    return tuple(CallSite(f["filename"], f["line"], f["name"]) for f in frames if f["filename"].endswith((".py", ">")))


def python_frame(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next(frame for event in events for frame in event.get("frames", ()) if frame["filename"].endswith(".py"))


def rows_of(trace: Trace) -> list[tuple]:
    stacks = [trace.stack_table[stack] if stack >= 0 else () for stack in trace.stacks]
    columns = (trace.actions, trace.addresses, trace.sizes_bytes, trace.streams, trace.times_us, stacks)
    return [(ACTIONS[code], *values) for code, *values in zip(*columns, strict=True)]


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_the_trace_is_pytorchs_event_by_event(path):
    traces = {trace.device: trace for trace in open_snapshot(path).traces}
    for device, events in enumerate(own(path)["device_traces"]):
        expected = [
            (
                event["action"], event.get("addr", event.get("device_free")), event["size"], event["stream"],
                event.get("time_us", 0), python_frames(event.get("frames", [])),
            )
            for event in events
        ]  # fmt: skip
        if len(events) > 1:  # what "state" keeps is not a history
            assert rows_of(traces[device]) == expected
            pools = [event["pool_id"] for event in events if "pool_id" in event]
            assert [traces[device].pool_table[pool] for pool in traces[device].pools] == pools
        else:
            assert device not in traces


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_the_map_and_the_counters_are_pytorchs(path):
    moment = open_snapshot(path)
    segments = own(path)["segments"]
    assert [(s.address, s.size_bytes, s.stream) for s in moment.look.map.segments] == [
        (s["address"], s["total_size"], s["stream"]) for s in segments
    ]
    for device in moment.devices:
        mine = [segment for segment in segments if segment["device"] == device.index]
        assert device.statistics.reserved_bytes == sum(segment["total_size"] for segment in mine)
        assert device.statistics.allocated_bytes == sum(segment["allocated_size"] for segment in mine)
        assert device.statistics.active_bytes == sum(segment["active_size"] for segment in mine)
        assert device.statistics.requested_bytes == sum(segment["requested_size"] for segment in mine)
        assert sum(device.layout.by_category.values()) == device.statistics.allocated_bytes
        assert device.layout.release.composition.reserved_bytes == device.statistics.reserved_bytes


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_blocks_are_owned_by_the_line_that_allocated_them(path):
    layout = open_snapshot(path).devices[0].layout
    names = {owner.name for owner in layout.owners.values()}
    if path.stem.startswith("plain"):
        assert names == {""}
    else:
        without_python = {""} if path.stem.startswith("mean") else set()  # the thread of the backward pass runs none
        assert {name.partition(":")[0] for name in names} == {"snapshots/make.py"} | without_python


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith(("plain", "state"))])
def test_a_recording_from_the_first_allocation_on_is_whole(name, tmp_path):
    moment = open_snapshot(FILES[name])
    (trace,) = moment.traces
    assert trace.is_whole
    assert moment.devices[0].statistics.peak_allocated_bytes >= moment.devices[0].statistics.allocated_bytes
    data = own(FILES[name])
    del data["device_traces"][0][:2]
    assert not open_snapshot(_written(data, tmp_path / "later")).traces[0].is_whole


def _written(data: object, path: Path) -> Path:
    path.write_bytes(pickle.dumps(data))
    return path


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("failure")])
def test_an_error_at_the_end_of_the_trace_is_the_failure(name, tmp_path):
    moment = open_snapshot(FILES[name])
    failure = moment.failure
    assert (failure.requested_bytes, failure.device, failure.number) == (4096 * GIB, 0, 1)
    assert (failure.stack[0].function, failure.device_free_bytes > 70 * GIB) == ("failure", True)
    data = own(FILES[name])
    data["device_traces"][0].append(data["device_traces"][0][1])
    survived = open_snapshot(_written(data, tmp_path / "survived"))
    assert survived.failure is None
    assert survived.devices[0].statistics.num_ooms == 1


SEGMENT = ("address", "total_size", "stream", "segment_type", "allocated_size", "active_size", "blocks")
BLOCK = ("size", "requested_size", "address", "state", "frames")
EVENT = ("action", "addr", "frames", "size", "stream", "device_free")


def test_a_file_with_nothing_but_what_pytorch_documents_of_intels_devices_opens(tmp_path):
    """As `torch.xpu.memory._snapshot` has it: without device, pools, times and settings."""
    data = own(FILES["history-2.11"])
    blocks = [[{key: block[key] for key in BLOCK} for block in segment["blocks"]] for segment in data["segments"]]
    segments = [
        {**{key: segment[key] for key in SEGMENT}, "blocks": own_blocks}
        for segment, own_blocks in zip(data["segments"], blocks, strict=True)
    ]
    traces = [[{key: event[key] for key in EVENT if key in event} for event in of] for of in data["device_traces"]]
    moment = open_snapshot(_written({"segments": segments, "device_traces": traces}, tmp_path / "xpu"))
    whole = open_snapshot(FILES["history-2.11"])
    assert moment.devices[0].layout.by_category == whole.devices[0].layout.by_category
    assert moment.devices[0].statistics.allocated_bytes == whole.devices[0].statistics.allocated_bytes
    assert [len(trace.actions) for trace in moment.traces] == [len(trace.actions) for trace in whole.traces]


def test_the_seed_with_a_deleted_variable():
    moment = open_snapshot(FILES["field-2.11"])
    device = moment.devices[0].statistics
    assert (device.allocated_bytes, device.reserved_bytes, device.peak_allocated_bytes) == (2 * GIB, 4 * GIB, 4 * GIB)
    ((_, owner),) = moment.devices[0].layout.owners.items()
    assert owner.name == "snapshots/make.py:36 (field)"


def test_the_seed_with_a_backward_pass_peaks_at_twelve_gib_and_more():
    device = open_snapshot(FILES["mean-2.11"]).devices[0].statistics
    assert device.peak_allocated_bytes // GIB == 12


def test_what_gputui_writes_it_opens_with_names(tmp_path):
    look = moment(row(Tensor(4, "model.fc.weight", Category.PARAMETER), Tensor(2, "losses[3]"), free=1)).look
    path = tmp_path / "memory.pickle"
    path.write_bytes(snapshot_file(look, look.map))
    opened = open_snapshot(path)
    assert [(owner.category, owner.name) for owner in opened.devices[0].layout.owners.values()] == [
        (Category.PARAMETER, "model.fc.weight"),
        (Category.ACTIVATION, "losses[3]"),
    ]
    assert opened.look.map.segments == look.map.segments


def older(segment: dict[str, Any]) -> dict[str, Any]:
    """As PyTorch 2.0 wrote it: no addresses of blocks, no requested sizes, a history with the stacks."""
    blocks = [
        {"size": b["size"], "state": b["state"], "history": [{"addr": 0, "real_size": 1, "frames": b["frames"]}]}
        for b in segment["blocks"]
    ]
    kept = ("address", "total_size", "stream", "segment_type", "device")
    return {**{key: segment[key] for key in kept}, "blocks": blocks}


def test_what_older_versions_leave_out_has_defaults(tmp_path):
    segments = own(FILES["history-2.1"])["segments"]
    new = open_snapshot(FILES["history-2.1"])
    for data in ([older(s) for s in segments], {"segments": [older(s) for s in segments]}):
        old = open_snapshot(_written(data, tmp_path / "older"))
        assert old.devices[0].layout.owners == new.devices[0].layout.owners
        assert old.devices[0].statistics.reserved_bytes == new.devices[0].statistics.reserved_bytes
        assert old.traces == ()


def test_unknown_keys_and_events_are_left_out(tmp_path):
    data = own(FILES["history-2.15"])
    events = len(data["device_traces"][0])
    for entry in [*data["segments"], *data["segments"][0]["blocks"], *data["device_traces"][0]]:
        entry["later"] = [1, {"x": (None, 1.5)}]
    data["device_traces"][0].insert(5, {"action": "teleport", "addr": 1, "size": 1})
    moment = open_snapshot(_written({**data, "later": [{}]}, tmp_path / "later"))
    assert len(moment.traces[0]) == events


@pytest.mark.parametrize(
    ("row_of", "key", "value", "events"),
    [
        pytest.param(lambda data: data["segments"][0], "total_size", -1, 0, id="segment"),
        pytest.param(lambda data: data["segments"][0]["blocks"][0], "size", 2**64 - 1, 0, id="block"),
        pytest.param(lambda data: data["device_traces"][0][3], "size", 2**64 - 1, 1, id="event"),
        pytest.param(lambda data: python_frame(data["device_traces"][0]), "line", 2**64 - 1, 0, id="frame"),
    ],
)
def test_one_value_that_cannot_be_costs_its_row(row_of, key, value, events, tmp_path):
    data = own(FILES["history-2.15"])
    row_of(data)[key] = value
    moment = open_snapshot(_written(data, tmp_path / "absurd"))
    said = [problem.text for problem in moment.problems if "1 impossible row of the file is left out." in problem.text]
    assert len(said) == 1
    assert len(data["device_traces"][0]) - len(moment.traces[0]) == events


def test_a_frame_of_cpp_may_have_any_line(tmp_path):
    data = own(FILES["history-2.15"])
    data["device_traces"][0][3]["frames"].insert(0, {"name": "f", "filename": "alloc.cpp", "line": 2**64 - 1})
    moment = open_snapshot(_written(data, tmp_path / "cpp"))
    assert not any("impossible" in problem.text for problem in moment.problems)


WRONG = {
    "no segments": ({"device_traces": []}, "there are no segments"),
    "a number": (7, "there are no segments"),
    "a text for a segment": ({"segments": ["x"]}, "'segments' is list"),
    "a text for an address": ({"segments": [{"address": "x"}]}, "'address' is 'x'"),
    "an address beyond 64 bits": ({"segments": [{"address": 2**70}]}, "'address' is 1180591620717411303424"),
    "an unknown state": (
        {"segments": [{"address": 0, "total_size": 1, "blocks": [{"size": 1, "state": "gone"}]}]},
        "'state' is 'gone'",
    ),
    "blocks that do not fill it": ({"segments": [{"address": 1, "total_size": 1}]}, "do not fill it"),
    "a number for a trace": ({"segments": [], "device_traces": [7]}, "'device_traces' is 7"),
    "a number for an event": ({"segments": [], "device_traces": [[7]]}, "'device_traces' is 7"),
    "settings of another kind": ({"segments": [], "allocator_settings": 7}, "'allocator_settings' is 7"),
}


@pytest.mark.parametrize(("data", "words"), WRONG.values(), ids=WRONG)
def test_another_pickle_is_refused_with_what_is_wrong_in_it(data, words, tmp_path):
    path = _written(data, tmp_path / "other.pickle")
    with pytest.raises(NoSnapshotError) as refusal:
        open_snapshot(path)
    assert str(refusal.value).startswith(f"{path} is a pickle, but not a snapshot of PyTorch's: ")
    assert words in str(refusal.value)


def test_an_empty_snapshot_is_shown_as_empty(tmp_path):
    moment = open_snapshot(_written({"segments": [], "device_traces": [[], []]}, tmp_path / "empty"))
    assert moment.devices == ()
    assert moment.traces == ()


@pytest.mark.parametrize("file", ["thread48.o", "/lib/libc.so.6", "TensorShape.cpp", "ld.a", "??"])
def test_no_frame_of_a_runtime_stands_for_the_line_of_the_program(file):
    names = ("execute_native_thread_routine", 0, file), ("step", 31, "/home/ana/train.py")
    frames = [{"name": name, "line": line, "filename": filename} for name, line, filename in names]
    assert site_of(Frames().stack(frames)) == CallSite("/home/ana/train.py", 31, "step")
    assert site_of(Frames().stack(frames[:1])) is None
