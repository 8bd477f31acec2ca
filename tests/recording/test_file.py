"""The file: it is read as written, truncation loses its end, and damage loses the chunk that it hit."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.errors import GputuiError
from gputui.explain.step.step import step_of
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Cycles, Garbage, Look
from gputui.model.attached.trace import RecordedTraces
from gputui.model.reading import Problem
from gputui.sources.files.recording import chunks, reader
from gputui.sources.files.recording.chunks import FIRST_LINE, HEADER_BYTES, ChunkKind, write_chunk
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.records import plain
from gputui.sources.files.recording.story import Story
from tests.explain.moments import GREETING
from tests.recording.made import BEGAN, Made, counters_at, job, look_at
from tests.scale import scaled
from tests.ui.attach.scene import recorded


@lru_cache
def long_job() -> Made:
    return job(12)


def live() -> list[TargetMoment]:
    return long_job().moments[GREETING.pid]


def moments_in(path: Path) -> list[TargetMoment]:
    return list(Story(Recording(path)).moments())


def without_problems(moments: list[TargetMoment]) -> list[tuple]:
    """The moments without their problems, among which there may be a notice."""
    return [(moment.time, moment.devices, moment.marks, moment.host, moment.look_time) for moment in moments]


def test_replayed_moments_equal_the_live_ones(tmp_path):
    assert moments_in(long_job().write(tmp_path / "job")) == live()


def step_message(recorded: RecordedTraces) -> dict[str, Any]:
    """A recorded step as the probe sends it."""
    (trace,) = recorded.traces
    sites = sorted({site for stack in trace.stack_table for site in stack}, key=str)
    columns = {
        name: list(getattr(trace, name))
        for name in ("actions", "addresses", "sizes_bytes", "streams", "times_us", "stacks")
    }
    return {
        "type": "step",
        **plain(recorded.look),
        "traces": [{"device": trace.device, "count": len(trace), **columns}],
        "frames": [plain(site) for site in sites],
        "stacks": [[sites.index(site) for site in stack] for stack in trace.stack_table],
        "recording": plain(recorded.cost),
        "max_events": recorded.max_events,
    }


def test_a_recorded_step_is_replayed_from_its_moment_on(tmp_path):
    made, step = job(3, ends=False), recorded()
    made.note(BEGAN + 3.2, GREETING.pid, "message", step_message(step))
    made.hear(BEGAN + 3.3, counters_at(BEGAN + 3.3, 30))
    made.deliver(BEGAN + 3.4)
    *before, last = moments_in(made.write(tmp_path / "job"))
    assert {moment.recorded for moment in before} == {None}
    assert last.recorded is not None
    assert (last.recorded.traces, last.recorded.cost) == (step.traces, step.cost)
    assert step_of(last.recorded.traces[0], last.recorded.look) is not None


def test_what_a_collection_would_free_is_replayed_until_it_is_gone(tmp_path):
    made, look = Made(), look_at(BEGAN + 1, [20, 20])
    kept, gone = (segment.blocks[0] for segment in look.map.segments)
    storages = tuple((block.address, block.size_bytes) for block in (kept, gone))
    made.hear(BEGAN + 1, look)
    made.hear(BEGAN + 2, Garbage(BEGAN + 2, (Cycles(0, "Net", 2, "Net refers to itself", storages),)))
    made.deliver(BEGAN + 2)
    made.hear(BEGAN + 3, look_at(BEGAN + 3, [20]))
    made.deliver(BEGAN + 3)
    replayed = moments_in(made.write(tmp_path / "job"))
    assert replayed == made.moments[GREETING.pid]
    assert [moment.garbage.groups[0].storages for moment in replayed] == [storages, storages[:1]]


def part_of(look: Look) -> Look:
    """The look as it is where there was time for every second tensor."""
    return replace(look, inventory=replace(look.inventory, storages=look.inventory.storages[::2], is_complete=False))


LOOKS = {
    "look": lambda at: look_at(at, [20 + int(at) % 3] * (int(at) % 5)),
    "same look": lambda _: look_at(BEGAN, [20, 30]),
    "look without tensors": lambda at: replace(look_at(at, [20, 30, 40][: int(at) % 4]), inventory=None),
    "look at some tensors": lambda at: part_of(look_at(at, [20, 30, 40, 50][: 2 + int(at) % 3])),
    "look without a map": lambda at: replace(look_at(at, [20, 30]), map=None),
}
STEPS = st.lists(st.sampled_from(["counters", "moment", *LOOKS]), max_size=60)


@settings(max_examples=scaled(10, 20), deadline=None)
@given(STEPS)
def test_any_sequence_of_records_is_replayed(tmp_path_factory, steps):
    made = Made()
    for number, step in enumerate(steps):
        at = BEGAN + number
        if step == "counters":
            made.hear(at, counters_at(at, number))
            continue
        if step in LOOKS:
            made.hear(at, LOOKS[step](at))
        made.deliver(at)
    path = made.write(tmp_path_factory.mktemp("any") / "job")
    assert moments_in(path) == made.moments[GREETING.pid]


def test_names_that_looks_at_some_tensors_brought_are_there_in_a_replay_and_after_a_jump(tmp_path):
    made = Made()
    live = [20, 30, 40, 50]
    for number, seen in enumerate([look_at(BEGAN, live), *(part_of(look_at(BEGAN + n, live)) for n in range(1, 5))]):
        made.hear(BEGAN + number, seen)
        made.deliver(BEGAN + number + 0.1)
    path = made.write(tmp_path / "job")
    assert moments_in(path) == made.moments[GREETING.pid]
    owners = [set(moment.devices[0].layout.owners.values()) for moment in moments_in(path)]
    assert [len(some) for some in owners] == [4] * 5
    story = Story(Recording(path))
    jumped = story.advance(BEGAN + 5, is_rough=True)[GREETING.pid].latest
    assert len(set(jumped.devices[0].layout.owners.values())) == 4


@settings(max_examples=scaled(25, 50), deadline=None)
@given(st.deferred(lambda: st.integers(0, len(long_job().data))))
def test_a_truncated_file_keeps_what_precedes_the_cut(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "job"
    path.write_bytes(long_job().data[:length])
    try:
        seen = moments_in(path)
    except GputuiError:
        assert length < sum(map(len, long_job().chunks[:3])) + len(FIRST_LINE)
        return
    assert without_problems(seen) == without_problems(live()[: len(seen)])
    whole = sum(
        length >= len(FIRST_LINE) + sum(map(len, long_job().chunks[:n])) for n in range(1, len(long_job().chunks) + 1)
    )
    assert len(seen) == sum(
        b'"surroundings"' in zlib.decompress(chunk[HEADER_BYTES:]) for chunk in long_job().chunks[:whole]
    )


@settings(max_examples=scaled(30, 60), deadline=None)
@given(st.deferred(lambda: st.integers(0, len(long_job().data) - 1)), st.integers(1, 255))
def test_a_flipped_byte_loses_at_most_one_chunk(tmp_path_factory, place, bits):
    data = bytearray(long_job().data)
    data[place] ^= bits
    path = tmp_path_factory.mktemp("flipped") / "job"
    path.write_bytes(data)
    try:
        seen = moments_in(path)
    except GputuiError:
        assert place < len(FIRST_LINE) + sum(map(len, long_job().chunks[:2]))
        return
    assert len(seen) >= len(live()) - 1
    assert {moment.time for moment in seen} <= {moment.time for moment in live()}
    assert any("damaged" in notice or "cut off" in notice for notice in Recording(path).notices)


def test_a_damage_notice_has_the_times_around_it(tmp_path):
    middle = next(n for n, chunk in enumerate(long_job().chunks) if n > 20)
    data = FIRST_LINE + b"".join(
        [*long_job().chunks[:middle], b"\0" * len(long_job().chunks[middle]), *long_job().chunks[middle + 1 :]]
    )
    path = tmp_path / "job"
    path.write_bytes(data)
    (notice,) = Recording(path).notices
    assert notice.startswith("The recording is damaged between ")
    assert moments_in(path)[-1].problems == (Problem(notice),)


def test_after_a_lost_look_counters_remain_until_the_next_full_look(tmp_path):
    made = job(60)
    looks = [
        n
        for n, chunk in enumerate(made.chunks)
        if chunks.read_header(chunk).kind in (ChunkKind.LOOK, ChunkKind.CHANGED_LOOK)
    ]
    lost = looks[3]
    path = tmp_path / "job"
    path.write_bytes(FIRST_LINE + b"".join([*made.chunks[:lost], *made.chunks[lost + 1 :]]))
    seen, live = moments_in(path), made.moments[GREETING.pid]
    assert [moment.devices[0].statistics for moment in seen] == [moment.devices[0].statistics for moment in live]
    has_layout = [moment.devices[0].layout is not None for moment in seen]
    lost_from, found_again = has_layout.index(False, 3), len(has_layout) - has_layout[::-1].index(False)
    assert 0 < lost_from < found_again < len(seen)
    assert seen[found_again:] == live[found_again:]


SENTENCES = {
    "an empty file": (b"", ["is empty.", "gputui attach PID --record FILE"]),
    "a file of another kind": (b"\x7fELF\2\1\1", ["is not a recording of gputui.", "gputui attach PID --record FILE"]),
    "a text file": (b"gputui recording one\n", ["is not a recording of gputui."]),
    "a newer version": (b"gputui recording 2\n", ["is a recording of version 2", "up to version 1", "Update gputui."]),
    "a version of very many digits": (b"gputui recording " + b"9" * 9000, ["recording"]),
    "half a first line": (FIRST_LINE[:5], ["holds nothing"]),
    "a first line alone": (FIRST_LINE, ["holds nothing to show"]),
    "garbage after the first line": (FIRST_LINE + b"\xff" * 5000, ["holds nothing to show", "cut off"]),
    "many false chunk headers": (FIRST_LINE + chunks.MAGIC * 500_000, ["holds nothing to show"]),
    "an empty chunk": (FIRST_LINE + write_chunk(ChunkKind.RECORDS, 7, 1.0, []), ["holds nothing to show"]),
    "records of an unknown form": (
        FIRST_LINE + write_chunk(ChunkKind.RECORDS, 7, 1.0, [[1.0, 7, "message", {"type": "greeting", "pid": "x"}]]),
        ["holds nothing to show"],
    ),
    "a kind of a later version": (FIRST_LINE + write_chunk(ChunkKind.LOOK, 7, 1.0, {}), ["holds nothing to show"]),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_file_without_a_usable_recording_gets_a_sentence(tmp_path, name):
    data, words = SENTENCES[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(GputuiError) as caught:
        Recording(path)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "a folder"])
def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path, name):
    (tmp_path / "a folder").mkdir()
    with pytest.raises(GputuiError, match=f"{name} cannot be read: .* Name a recording made with `gputui attach"):
        Recording(tmp_path / name)


def test_the_memory_of_a_chunk_is_limited():
    bomb = zlib.compress(b"[" + b" " * (chunks.MAX_CONTENT_BYTES + 10) + b"]", 1)
    header = chunks._HEADER.pack(chunks.MAGIC, ChunkKind.RECORDS, 0, 0, 1.0, len(bomb))
    checked = header + chunks._SUM.pack(zlib.crc32(bomb, zlib.crc32(header)))
    with pytest.raises(chunks.DamagedError, match="more than a chunk may hold"):
        chunks.text_of(checked, bomb)


def test_the_number_of_values_in_a_chunk_is_limited():
    chunk = write_chunk(ChunkKind.RECORDS, 0, 1.0, [[]] * (chunks.MAX_PARTS // 2 + 10))
    with pytest.raises(chunks.DamagedError, match="more values than a chunk may hold"):
        chunks.content_of(chunks.text_of(chunk[:HEADER_BYTES], chunk[HEADER_BYTES:]))


def endless_job(path: Path) -> Path:
    """A recording in whose middle there are a thousand chunks that are each within their limit."""
    made = job(8)
    label = "x" * 400_000
    large = [[BEGAN + 4, GREETING.pid, "message", {"type": "mark", "time": BEGAN + 4, "label": label}]]
    middle = len(made.chunks) // 2
    made.chunks[middle:middle] = [write_chunk(ChunkKind.RECORDS, 0, BEGAN + 4, large)] * 1000
    return made.write(path)


def test_all_chunks_together_inflate_to_no_more_than_a_multiple_of_the_file(monkeypatch, tmp_path):
    path = endless_job(tmp_path / "job")
    inflated_bytes, inflate = 0, chunks.text_of

    def counting(header: bytes, payload: bytes) -> bytes:
        nonlocal inflated_bytes
        text = inflate(header, payload)
        inflated_bytes += len(text)
        return text

    monkeypatch.setattr(reader, "text_of", counting)
    monkeypatch.setattr(reader, "INFLATED_AT_LEAST", 1_000_000)
    recording = Recording(path)
    story = Story(recording)
    (timeline,) = story.advance(recording.ends).values()
    allowed_bytes = chunks.INFLATED_PER_BYTE * path.stat().st_size
    assert allowed_bytes < 400_000_000 / 2
    assert inflated_bytes < allowed_bytes + 2_000_000
    assert recording.notices == (reader.INFLATES_TOO_MUCH,)
    assert timeline.latest.problems == (Problem(reader.INFLATES_TOO_MUCH),)
    assert [counted.time for counted in timeline.counters(0).last(inf)[:3]] == [moment.time for moment in live()[:3]]


def test_a_chunk_that_is_read_again_counts_once(tmp_path):
    recording = Recording(job(4).write(tmp_path / "job"))
    records = len(list(recording.records()))
    left_bytes = recording._may_inflate_bytes
    assert all(len(list(recording.records())) == records for _ in range(10))
    assert recording._may_inflate_bytes == left_bytes


def test_a_look_too_large_for_a_reader_is_left_out(monkeypatch, tmp_path):
    made = job(4, ends=False)
    monkeypatch.setattr(chunks, "MAX_CONTENT_BYTES", 3000)
    at = BEGAN + 10
    made.hear(at, look_at(at, [20] * 400))
    made.deliver(at)
    monkeypatch.undo()
    last = moments_in(made.write(tmp_path / "job"))[-1]
    assert last.devices[0].statistics == made.moments[GREETING.pid][-1].devices[0].statistics
    assert last.devices[0].layout is None


def test_texts_in_a_recording_cannot_send_control_characters(tmp_path):
    path = tmp_path / "job"
    evil = json.loads(json.dumps({"gputui": "1", "hostname": "\x1b]0;evil\x07"}))
    made = Made()
    made.chunks[0] = write_chunk(ChunkKind.RECORDS, 0, BEGAN, [[BEGAN, 0, "recording", evil]])
    recording = Recording(made.write(path))
    assert recording.about.hostname.isprintable()
