"""Meters, sparklines and areas, in blocks and in ASCII."""

import pytest

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.graphs import Graph, area_height, draw_graphs, graph_width, graphs_abreast
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.meters import ASCII, UNICODE, area, meter, sparkline


@pytest.mark.parametrize(
    ("fraction", "blocks", "plain"),
    [
        (0.0, "░░░░", "...."),
        (0.5, "██░░", "##.."),
        (1.0, "████", "####"),
        (0.28, "█▏░░", "#..."),
        (-1.0, "░░░░", "...."),
        (7.0, "████", "####"),
        (0.001, "░░░░", "...."),
    ],
)
def test_meter(fraction, blocks, plain):
    assert text_of((meter(fraction, 4, "good", UNICODE),)) == blocks
    assert text_of((meter(fraction, 4, "good", ASCII),)) == plain


def test_a_meter_has_the_requested_width():
    assert {width_of(meter(hundredths / 100, 7, "good", UNICODE)) for hundredths in range(101)} == {7}


@pytest.mark.parametrize(
    ("fractions", "blocks", "plain"),
    [
        ([0.0, 0.5, 1.0], " ▄█", " =#"),
        ([None, 1.0, None], " █ ", " # "),
        ([0.001], "▁", "."),
        ([2.0, -1.0], "█ ", "# "),
        ([], "", ""),
    ],
    ids=["levels", "gaps", "a small value is visible", "clipped", "nothing"],
)
def test_sparkline(fractions, blocks, plain):
    assert sparkline(fractions, UNICODE) == blocks
    assert sparkline(fractions, ASCII) == plain


def test_area_stacks_lines():
    assert area([0.0, 0.25, 0.5, 0.75, 1.0, None], 2, UNICODE) == ["   ▄█ ", " ▄███ "]


@pytest.mark.parametrize(("width", "count", "abreast"), [(80, 6, 2), (120, 6, 3), (200, 6, 5), (20, 6, 1), (300, 2, 2)])
def test_graphs_are_placed_side_by_side_where_there_is_room(width, count, abreast):
    assert graphs_abreast(width, count) == abreast
    assert graph_width(width, count) * abreast + 2 * (abreast - 1) <= width


@pytest.mark.parametrize("width", [34, 70, 80, 120, 200])
def test_graphs_are_aligned_in_a_grid(width):
    graphs = [Graph(f"Graph {number}", "50%", [None, 50.0, 100.0], 100.0) for number in range(5)]
    lines = draw_graphs(graphs, width, 3, 2.0, Appearance())
    cells = graph_width(width, 5)
    assert {width_of(line) for line in lines} <= {cells * count + 2 * (count - 1) for count in range(1, 6)}
    assert len(lines) % 5 == 0
    assert "Graph 4" in text_of(lines)


def test_a_graph_with_a_top_of_zero_is_drawn():
    assert "█" in text_of(draw_graphs([Graph("PCIe", "", [1.0], 0.0)], 40, 2, 2.0, Appearance()))


def test_a_graph_names_its_top_its_bottom_and_its_time():
    graph = Graph("Power", "350 W", [350.0] * 60, 700.0, top_shown="700W")
    title, top, bottom, times = text_of(draw_graphs([graph], 66, 2, 10.0, Appearance())).split("\n")
    assert title.startswith("Power")
    assert top.startswith(" 700W")
    assert bottom.startswith("    0 █")
    assert times.endswith(" now")
    assert "10 min ago, 10 s per cell" in times


def test_a_graph_without_a_point_has_no_values_at_its_axis():
    lines = draw_graphs([Graph("GPU", "", [None], 100.0, top_shown="100%")], 66, 2, 2.0, Appearance())
    assert "100%" not in text_of(lines)


@pytest.mark.parametrize(("lines", "height"), [(10, 3), (24, 10), (100, 16), (0, 2)])
def test_areas_fill_the_lines_there_are(lines, height):
    assert area_height(120, 6, lines) == height
