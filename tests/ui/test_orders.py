"""Sorting, reversing, the tree, and tags."""

from __future__ import annotations

import pytest

from gputui.model.machine.process import ProcessLook
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDERS
from tests.ui import scenes
from tests.ui.monitor import open_monitor


@pytest.mark.parametrize("opener", ["o", "f6"])
async def test_a_key_and_a_letter_sort(opener):
    async with open_monitor() as monitor:
        for order in reversed(PROCESS_ORDERS):  # the default order comes last
            await monitor.press(opener, order.letter)
            assert monitor.screen == "Overview"
            assert (monitor.app.view.order, monitor.app.view.is_reversed) == (order.name, False)


async def test_a_capital_letter_reverses():
    async with open_monitor() as monitor:
        await monitor.press("o", "P")
        assert (monitor.app.view.order, monitor.app.view.is_reversed) == ("pid", True)
        assert monitor.pids[0] == 3200


async def test_the_sort_menu_chooses_with_arrows_and_enter():
    async with open_monitor() as monitor:
        await monitor.press("o", "down", "enter")
        assert monitor.app.view.order == PROCESS_ORDERS[1].name


async def test_j_and_k_move_in_the_sort_menu():
    async with open_monitor() as monitor:
        await monitor.press("o", "j", "j", "k", "enter")
        assert monitor.app.view.order == PROCESS_ORDERS[1].name


async def test_escape_and_q_close_the_sort_menu_without_a_change():
    async with open_monitor() as monitor:
        for key in ("escape", "q"):
            await monitor.press("o", "down", key)
            assert (monitor.screen, monitor.app.view.order) == ("Overview", "device"), key


@pytest.mark.parametrize(
    ("letter", "marked", "reversed_mark"),
    [("u", "User▲", "User▼"), ("g", "GPU mem▼", "GPU mem▲"), ("p", "PID▲", "PID▼")],
    ids=["text", "bytes", "number"],
)
async def test_the_arrow_points_down_from_the_largest_and_up_from_the_smallest(letter, marked, reversed_mark):
    async with open_monitor() as monitor:
        await monitor.press("o", letter)
        assert marked in monitor.text
        before = monitor.pids
        await monitor.press("r")
        assert reversed_mark in monitor.text
        assert monitor.pids != before


async def test_right_scrolls_the_commands_and_left_scrolls_them_back():
    async with open_monitor() as monitor:
        assert "vllm.entrypoints" in monitor.text
        await monitor.press("right")
        assert "rypoints" in monitor.text
        assert "vllm.entrypoints" not in monitor.text
        await monitor.press("left", "left")
        assert "vllm.entrypoints" in monitor.text


async def test_a_key_shows_whole_commands():
    async with open_monitor() as monitor:
        assert "python -m" not in monitor.text
        await monitor.press("W")
        assert "python -m vllm" in monitor.text
        await monitor.press("W")
        assert "python -m" not in monitor.text


async def test_the_order_from_the_settings_applies_from_the_start():
    async with open_monitor(sort="pid", reverse=True) as monitor:
        assert monitor.pids[0] == 3200


async def test_the_tree_puts_ranks_under_their_job_and_workers_under_their_process():
    async with open_monitor() as monitor:
        await monitor.press("t")
        rows = [line for line in monitor.lines if "job of" in line or "├─" in line or "└─" in line]
        assert "job of launcher 2000: 4 of 4 ranks here" in rows[0]
        assert sum("2 workers" in row for row in rows) == 4
        await monitor.press("t")
        assert "job of" not in monitor.text


async def test_space_tags_and_escape_clears_the_tags_before_the_filter():
    async with open_monitor() as monitor:
        await monitor.press("slash", *"python", "enter", "space", "space")
        assert "2 tagged" in monitor.lines[0]
        await monitor.press("escape")
        assert "tagged" not in monitor.lines[0]
        assert "filter: python" in monitor.lines[0]
        await monitor.press("escape")
        assert "filter" not in monitor.lines[0]


async def test_space_again_removes_the_tag():
    async with open_monitor() as monitor:
        await monitor.press("space", "up", "space")
        assert "tagged" not in monitor.lines[0]


async def test_a_tagged_process_that_has_ended_is_not_counted():
    async with open_monitor() as monitor:
        await monitor.press("space", "space", "space")
        assert "3 tagged" in monitor.lines[0]
        ended = monitor.table.entries[1].process
        assert ended is not None
        node = scenes.node(2)
        remaining = tuple(process for process in node.processes.processes if process.identity != ended.identity)
        await monitor.see(node._replace(processes=node.processes._replace(processes=remaining)))
        assert "2 tagged" in monitor.lines[0]
        await monitor.see(node._replace(number=3, processes=ProcessLook(problem="The list cannot be read.")))
        assert "2 tagged" in monitor.lines[0]


async def test_a_row_without_a_process_cannot_be_tagged():
    async with open_monitor() as monitor:
        await monitor.press("end", "space")
        assert "tagged" not in monitor.lines[0]
