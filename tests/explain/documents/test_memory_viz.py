"""The file for PyTorch's memory viewer: a memory snapshot with owner names as stack frames."""

from __future__ import annotations

import pickle
import pickletools
from dataclasses import replace

import pytest

from gputui.explain.documents.memory_viz import snapshot, snapshot_file
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.target import Cost, Look
from gputui.model.attached.tensors import Category, Inventory, Storage
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment
from tests.explain.named import named

KNOWN_TO_THE_VIEWER = {
    *("PROTO", "FRAME", "MARK", "STOP", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "EMPTY_LIST", "APPEND", "APPENDS", "LIST"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}
"""The opcodes that the viewer's pickle reader understands (torch/utils/viz/MemoryViz.js)."""

MAP = layout(
    segment(("live", 4), ("free", 12), ("waits", 4), slack=100),
    segment(("live", 1), ("free", 1), address=BASE + (1 << 40), device=2, is_small=True, stream=0x5581, pool_id=(0, 3)),
    values=(("expandable_segments", "True"), ("max_split_size_mb", "40")),
    max_split_bytes=40 * MIB,
    roundup_divisions=(4, 8),
)


def look(name: str = "model.fc.weight") -> Look:
    storage = Storage(0, BASE, 4 * MIB, Category.PARAMETER, named(name), "Parameter", (MIB,), "float32")
    return Look(0.0, (), MAP.settings, MAP, Inventory((storage,), "walk", is_of_one_moment=True), Cost(0, 0))


def test_a_segment_has_the_fields_that_pytorch_writes():
    first, second = snapshot(look(), MAP)["segments"]
    blocks = first.pop("blocks")
    assert first == {
        "device": 0,
        "address": BASE,
        "total_size": 20 * MIB,
        "allocated_size": 4 * MIB,
        "active_size": 8 * MIB,
        "requested_size": 8 * MIB - 200,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
    }
    assert [block["state"] for block in blocks] == ["active_allocated", "inactive", "active_pending_free"]
    assert (second["segment_type"], second["segment_pool_id"], second["stream"]) == ("small", (0, 3), 0x5581)


def test_the_owner_is_the_top_frame_of_the_stack():
    first, second = snapshot(look(), MAP)["segments"]
    assert [block["frames"] for block in first["blocks"]] == [
        [{"name": "model.fc.weight", "filename": "parameter", "line": 0}],
        [],
        [],
    ]
    assert second["blocks"][0]["frames"] == [{"name": "", "filename": "unattributed", "line": 0}]


def test_the_allocating_line_is_the_frame_below_the_owner():
    site = CallSite("/home/ana/train.py", 23, "step")
    blocks = (replace(MAP.segments[0].blocks[0], site=site), *MAP.segments[0].blocks[1:])
    made = replace(MAP, segments=(replace(MAP.segments[0], blocks=blocks),))
    frames = snapshot(replace(look(), map=made), made)["segments"][0]["blocks"][0]["frames"]
    assert frames[1:] == [{"name": "step", "filename": "/home/ana/train.py", "line": 23}]


def test_names_that_the_viewer_would_hide_are_shown():
    (frame,) = snapshot(look("model.pos_start.weight"), MAP)["segments"][0]["blocks"][0]["frames"]
    assert frame["name"] == "model.pos-start.weight"


def test_every_device_index_has_a_trace_and_settings_are_included():
    whole = snapshot(look(), MAP)
    assert whole["device_traces"] == [[], [], []]
    assert whole["external_annotations"] == []
    assert whole["allocator_settings"] == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:40",
        "max_split_size": 40 * MIB,
        "expandable_segments": False,
        "roundup_power2_divisions": {"1": 4, "2": 8},
    }


@pytest.mark.parametrize("name", ["model.fc.weight", "größe", "x" * 4096], ids=["short", "not ASCII", "long"])
def test_the_file_is_a_pickle_that_the_viewer_can_read(name):
    data = snapshot_file(look(name), MAP)
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= KNOWN_TO_THE_VIEWER
    assert pickle.loads(data) == snapshot(look(name), MAP)
