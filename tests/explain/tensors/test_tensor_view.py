"""The view of the tensors: open nodes, sorting, filters, and one tree for each look."""

from __future__ import annotations

import pytest

from gputui.errors import UsageError
from gputui.explain.tensors import tree as tensor_tree
from gputui.explain.tensors.view import TensorView
from gputui.model.attached.tensors import Category
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.tensors import DETAIL_LINES, draw_detail, draw_summary, tensor_columns
from gputui.ui.drawing.columns import draw_row, lay_out
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.meters import ASCII
from gputui.units import MIB
from tests.explain.layouts import HOST_STORAGES, laid_out
from tests.explain.maps import BASE

P, S, A = Category.PARAMETER, Category.OPTIMIZER_STATE, Category.ACTIVATION

MODEL = laid_out(
    ("m.layers.0.w", P, 4),
    ("m.layers.1.w", P, 4),
    ("m.head", P, 1),
    ("opt.state[m.head].exp_avg", S, 1),
    ("h (t.py:3 in f)", A, 16),
    nameless=[2],
    slack=512,
)
FULL = 32 * MIB - 3 * MIB - MIB


def view(**choices) -> TensorView:
    made = TensorView()
    made.look_at(MODEL, ())
    if "filter" in choices:
        made.filter(choices["filter"])
    return made


def titles(made: TensorView) -> list[str]:
    return [f"{'  ' * row.depth}{row.node.title}" for row in made.tree.rows]


FIRST = [
    "activations", "  t.py:3 in f",
    "parameters", "  m",
    "unattributed", "  2.0 MiB blocks",
    "optimizer state", "  opt.state.m.head.exp_avg",
]  # fmt: skip


def test_initially_categories_are_open_and_sorted_by_bytes():
    assert titles(view()) == FIRST


def test_an_opened_node_shows_its_children():
    made = view()
    made.set_open(("parameter", "m"), is_open=True)
    assert titles(made)[2:6] == ["parameters", "  m", "    layers", "    head"]
    made.set_open(("parameter",), is_open=False)
    assert titles(made)[2:4] == ["parameters", "unattributed"]


def test_all_nodes_can_be_opened_and_closed():
    made = view()
    made.open_all()
    assert titles(made)[3:8] == ["parameters", "  m", "    layers", "      0.w", "      1.w"]
    made.open_all()
    assert titles(made) == FIRST


FILTERS = {
    "a word": ("head", {"m.head", "opt.state[m.head].exp_avg"}),
    "two words": ("head parameter", {"m.head"}),
    "bytes": ("bytes>4MiB", {"h (t.py:3 in f)"}),
    "bytes include rounding": ("bytes>=4MiB and requested<4MiB", {"m.layers.0.w", "m.layers.1.w"}),
    "category": ("category==optimizer_state", {"opt.state[m.head].exp_avg"}),
    "shape": ("shape==4194304", {"h (t.py:3 in f)"}),
    "dtype and name": ("dtype==float32 and name~layers", {"m.layers.0.w", "m.layers.1.w"}),
    "unattributed": ("category==unattributed", {""}),
    "nothing": ("nothing", set()),
}


@pytest.mark.parametrize(("text", "names"), FILTERS.values(), ids=FILTERS.keys())
def test_a_filter_shows_all_matches_fully_opened(text, names):
    made = view(filter=text)
    assert {row.node.block.owner.name for row in made.tree.rows if row.node.block} == names
    assert made.tree.shown[0] == len(names)


def test_an_invalid_filter_changes_nothing():
    made = view(filter="head")
    with pytest.raises(UsageError, match="has no field 'size_of'; it has name, category"):
        made.filter("size_of>3")
    assert made.filter_text == "head"


def test_clearing_the_filter_restores_the_open_nodes():
    made = view(filter="head")
    made.set_open(("parameter",), is_open=False)
    assert titles(made)[:2] == ["parameters", "optimizer state"]
    made.filter("")
    assert titles(made) == FIRST


@pytest.mark.parametrize("grouping", ["module", "shape"])
def test_showing_a_block_opens_its_parents_and_clears_the_filter(grouping):
    made = view(filter="head")
    if grouping == "shape":
        made.next_grouping()
    key = made.show(BASE + 5 * MIB)
    (row,) = [row for row in made.tree.rows if row.node.key == key]
    assert row.node.block.owner.name == "m.layers.1.w"
    assert made.filter_text == ""


def test_an_address_without_a_live_block_is_not_found():
    assert view().show(BASE - 1) is None


def test_a_look_makes_one_tree_however_often_it_is_drawn(monkeypatch):
    made_nodes = []
    original = tensor_tree._node
    monkeypatch.setattr(tensor_tree, "_node", lambda *a, **k: made_nodes.append(a) or original(*a, **k))
    made = view()
    first, rows = len(made_nodes), made.tree.rows
    for _ in range(50):
        made.look_at(MODEL, ())
        assert made.tree.rows is rows
    assert len(made_nodes) == first


def test_host_tensors_are_a_group_outside_the_device_sum():
    made = TensorView()
    made.look_at(MODEL, HOST_STORAGES)
    assert titles(made)[-1] == "host memory"
    assert made.tree.shown == (len(made.tree.blocks), made.tree.allocated_bytes) == (6, 28 * MIB)
    assert made.tree.allocated_bytes == MODEL.statistics.allocated_bytes


def drawn(made: TensorView, width: int, appearance: Appearance) -> list[str]:
    layout = lay_out(tensor_columns(made.tree.allocated_bytes, made.tree.request.grouping, width, appearance), width)
    lines = [draw_row(layout, row, appearance.glyphs.ellipsis) for row in made.tree.rows]
    assert {width_of(line) for line in lines} <= set(range(width + 1))
    return text_of(lines).splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("appearance", [Appearance(), Appearance(ASCII)], ids=["unicode", "ascii"])
@pytest.mark.parametrize("grouping", ["module", "shape"])
def test_rows_fill_the_width(width, appearance, grouping):
    made = TensorView()
    made.look_at(MODEL, HOST_STORAGES)
    if grouping == "shape":
        made.next_grouping()
    made.open_all()
    lines = drawn(made, width, appearance)
    assert len(lines) == len(made.tree.rows)
    if appearance.is_ascii:
        assert "".join(lines).isascii()


def test_a_group_row_shows_count_shape_dtype_and_type():
    made = view()
    made.next_grouping()
    lines = drawn(made, 100, Appearance(ASCII))
    assert any(line.startswith("P + 2 x (1048576,) float32 Tensor") and "8.0 MiB" in line for line in lines)
    assert any(line.startswith("U + 1 x 2.0 MiB blocks") for line in lines)


def test_sums_have_bars_and_shares():
    (line,) = [line for line in drawn(view(), 80, Appearance(ASCII)) if "parameters" in line]
    assert line.split() == ["P", "-", "parameters", "3", "9.0", "MiB", "32.1%", "####........"]


def test_the_detail_shows_everything_known_about_a_node():
    made = view()
    made.open_all()
    (row,) = [row for row in made.tree.rows if row.node.title == "1.w"]
    first, second = text_of(draw_detail(row, made.tree.allocated_bytes, 120, Appearance())).splitlines()
    assert first == " P m.layers.1.w  (parameter)"
    assert second == "   (1048576,) float32 Tensor, block 0x7f0000400000 of 4.0 MiB, 4,193,792 bytes requested"
    (branch,) = [row for row in made.tree.rows if row.node.title == "layers"]
    first, second = text_of(draw_detail(branch, made.tree.allocated_bytes, 120, Appearance())).splitlines()
    assert (first, second) == (" P m.layers", "   2 blocks, 8.0 MiB, 28.6% of allocated memory")


def test_views_say_what_they_keep_and_a_node_above_them_what_they_show():
    made = TensorView()
    rows = [(f"rows[{number}]", Category.OTHER, 16) for number in range(3)]
    made.look_at(laid_out(*rows, shown=16 << 10), ())
    made.open_all()
    assert any("(4096,) float32 Tensor of 16.0 MiB" in line for line in drawn(made, 160, Appearance(ASCII)))
    (branch,) = [row for row in made.tree.rows if row.node.title == "rows"]
    _, second = text_of(draw_detail(branch, made.tree.allocated_bytes, 120, Appearance())).splitlines()
    assert second == "   3 blocks, 48.0 MiB, 100.0% of allocated memory, of which its tensors show 48.0 KiB"


@pytest.mark.parametrize("width", [20, 80])
def test_the_detail_of_every_node_fits_the_width(width):
    made = TensorView()
    made.look_at(MODEL, HOST_STORAGES)
    made.open_all()
    for row in (None, *made.tree.rows):
        lines = draw_detail(row, made.tree.allocated_bytes, width, Appearance())
        assert len(lines) == DETAIL_LINES
        assert all(width_of(line) <= width for line in lines)


def test_the_summary_counts_what_the_filter_matches():
    made = view(filter="head")
    text = text_of([draw_summary(made, 120)])
    assert text.startswith(" 28.0 MiB allocated in 6 blocks, 93% named  2.0 MiB in 2 match head")
    assert text.endswith("by module, sorted by bytes")
