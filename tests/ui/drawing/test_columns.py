"""Columns: which ones fit, how wide they are, and what they contain."""

import pytest

from gputui.ui.drawing.columns import Column, column_at, draw_row, draw_titles, lay_out, mark_place, place_width
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDER_BY_NAME
from gputui.ui.drawing.monitor.processes import PROCESS_TABLE_COLUMNS

NAME = Column("name", "Name", 4, lambda item: (item, "plain"), grow=1, most=8)
NUMBER = Column("number", "Nr", 3, lambda item: ("7", "dim"), align=">")
WIDE = Column("wide", "Wide", 6, draw=lambda item, width: [("#" * width, "good")], from_width=20, grow=3)
ALL = (NAME, NUMBER, WIDE)


@pytest.mark.parametrize(
    ("width", "widths"),
    [
        pytest.param(8, {"name": 4, "number": 3}, id="exact fit"),
        pytest.param(7, {"name": 7}, id="a last column that does not fit is dropped, and the first grows"),
        pytest.param(2, {"name": 4}, id="the first stays"),
        pytest.param(19, {"name": 8, "number": 3}, id="growth stops at the maximum"),
        pytest.param(
            20,
            {"name": 6, "number": 3, "wide": 9},
            id="a wide-screen column appears, and spare cells are shared by weight",
        ),
        pytest.param(
            60, {"name": 8, "number": 3, "wide": 47}, id="spare cells beyond one column's maximum go to the other"
        ),
    ],
)
def test_lay_out(width, widths):
    assert {column.name: cells for column, cells in lay_out(ALL, width)} == widths


@pytest.mark.parametrize("columns", [DEVICE_COLUMNS, PROCESS_TABLE_COLUMNS], ids=["devices", "processes"])
def test_the_monitors_tables_never_exceed_the_screen(columns):
    for width in range(60, 301):
        assert sum(cells + 1 for _, cells in lay_out(columns, width)) - 1 <= width


def test_a_row_has_each_cell_in_its_column():
    layout = lay_out(ALL, 20)
    row = draw_row(layout, "a long name")
    assert text_of((row,)) == "a lon…   7 #########"
    assert width_of(row) == 20


def test_the_head_marks_the_sorted_column():
    assert draw_titles(lay_out(ALL, 20), "number", "^") == (("Name   Nr^ Wide     ", "head"),)


@pytest.mark.parametrize(
    ("x", "name"), [(0, "name"), (5, "name"), (6, "name"), (7, "number"), (11, "wide"), (19, "wide"), (40, None)]
)
def test_the_column_under_a_cell(x, name):
    assert column_at(lay_out(ALL, 20), x) == name


@pytest.mark.parametrize("name", PROCESS_ORDER_BY_NAME)
def test_the_title_of_a_sorted_column_has_room_for_its_arrow(name):
    column = next(column for column in PROCESS_TABLE_COLUMNS if column.name == name)
    assert len(f"{column.title}▼") <= column.width


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_process_table_keeps_device_pid_memory_and_command(width):
    names = {column.name for column, _ in lay_out(PROCESS_TABLE_COLUMNS, width)}
    assert {"device", "pid", "memory", "command"} <= names


@pytest.mark.parametrize(
    ("head", "marked"),
    [
        pytest.param("Name", "Name   2/11", id="behind the titles"),
        pytest.param("Name Mem", "Name Mem  ↕", id="an arrow where there is no room"),
        pytest.param("Name Memory", "Name Memory", id="the titles stay whole"),
    ],
)
def test_the_place_in_a_list_overwrites_no_title(head, marked):
    assert text_of((mark_place(((head.ljust(11), "head"),), 1, 11, 5, 11),)) == marked


def test_the_device_list_leaves_room_for_the_place():
    spare = place_width(11, 3)
    for width in range(60, 200):
        head = draw_titles(lay_out(DEVICE_COLUMNS, width, spare))
        assert "1/11" in text_of((mark_place(head, 0, 11, 3, width),)), width
