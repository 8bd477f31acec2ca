"""How many bytes an update sends to the terminal; byte counts do not depend on the speed of the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gputui.model.machine.snapshot import Snapshot
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor
from tests.ui.terminal import Terminal
from tests.ui.wire import Wire

SIZES = [(80, 24), (120, 40), (200, 50)]
NARROW = (80, 24)
NEW_FRAME_BYTES = {(80, 24): 4_500, (120, 40): 8_000, (200, 50): 15_000}


@asynccontextmanager
async def wired(size=NARROW, **settings) -> AsyncIterator[tuple[Monitor, Wire]]:
    """The monitor with a byte counter that starts after the first frame."""
    async with open_monitor(size=size, **settings) as monitor:
        wire = Wire(monitor.app)
        monitor.app.screen.refresh()
        await monitor.settle()
        wire.sent.clear()
        yield monitor, wire


def at(second: int, scene: Snapshot, number: int) -> Snapshot:
    """The same scene as snapshot `number`, taken at `second`."""
    return scene._replace(number=number, time=scenes.NOW + second)


def with_utilization(percent: int, number: int) -> Snapshot:
    """The node at the same second, with the fourth GPU's utilisation set to `percent`."""
    boards = tuple(
        board._replace(gpu_utilization_percent=percent) if board.index == 3 else board for board in scenes.devices(8)
    )
    scene = scenes.node(number)
    return scene._replace(time=scenes.NOW + 1, devices=scene.devices._replace(devices=boards))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_new_screen_costs_little_more_than_its_characters(size):
    async with wired(size) as (monitor, wire):
        wire.frames.forget()
        monitor.app.screen.refresh()
        await monitor.settle()
        assert 0 < wire.bytes < NEW_FRAME_BYTES[size]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_same_snapshot_again_costs_nothing(size):
    async with wired(size) as (monitor, wire):
        await monitor.see(at(1, scenes.node(), 2))
        assert wire.bytes == 0


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_repaint_of_an_unchanged_screen_costs_nothing(size):
    async with wired(size) as (monitor, wire):
        monitor.app.screen.refresh(layout=True)
        await monitor.settle()
        assert wire.sent
        assert wire.bytes == 0


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_next_second_costs_less_than_40_bytes(size):
    async with wired(size) as (monitor, wire):
        await monitor.see(at(2, scenes.node(), 2))
        wire.sent.clear()
        await monitor.see(at(3, scenes.node(), 3))
        assert 0 < wire.bytes < 40


async def test_a_new_point_of_every_graph_costs_less_than_400_bytes():
    async with wired((200, 50)) as (monitor, wire):
        await monitor.see(at(2, scenes.node(), 2))
        assert 0 < wire.bytes < 400


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_change_of_one_devices_utilisation_costs_less_than_200_bytes(size):
    async with wired(size) as (monitor, wire):
        await monitor.see(with_utilization(99, 2))
        assert 0 < wire.bytes < 200


def a_busy_second(number: int) -> Snapshot:
    """The node with new readings of every GPU and a new age of every process."""
    boards = tuple(
        board._replace(
            gpu_utilization_percent=50 + (7 * number + 11 * board.index) % 50,
            temperature_c=60 + (number + board.index) % 9,
            power_w=400.0 + (37 * number + 53 * board.index) % 280,
            sm_clock_mhz=1700 + (13 * number + 29 * board.index) % 200,
        )
        for board in scenes.devices(8)
    )
    scene = scenes.node(number)
    return scene._replace(time=scenes.NOW + number, devices=scene.devices._replace(devices=boards))


@pytest.mark.parametrize(("size", "limit"), [((80, 24), 220), ((160, 48), 720)], ids=["80x24", "160x48"])
async def test_a_second_in_which_every_device_changes_costs_less_than_in_nvitop(size, limit):
    """nvitop sends 350 and 1,150 bytes in such a second, with 8 GPUs and 24 processes (`benchmarks.monitor`)."""
    async with wired(size) as (monitor, wire):
        for number in range(2, 6):
            await monitor.see(a_busy_second(number))
        wire.sent.clear()
        for number in range(6, 16):
            await monitor.see(a_busy_second(number))
        assert 0 < wire.bytes / 10 < limit


async def test_moving_the_cursor_costs_at_most_two_rows():
    async with wired() as (monitor, wire):
        await monitor.press("down")
        assert 0 < wire.bytes < 2 * 80 + 150


async def test_a_paused_monitor_sends_nothing():
    async with wired(interval_s=0.1) as (monitor, wire):
        await monitor.press("p")
        wire.sent.clear()
        monitor.app._sampler.refresh()
        for _ in range(20):
            await monitor.settle()
        assert wire.bytes == 0


async def test_updates_under_an_open_dialog_send_nothing():
    async with wired() as (monitor, wire):
        await monitor.press("o")
        wire.sent.clear()
        await monitor.see(with_utilization(99, 2))
        assert wire.sent == []


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_bytes_of_a_whole_session_reproduce_the_screen(size):
    async with wired(size) as (monitor, wire):
        terminal = Terminal(*size)
        wire.frames.forget()
        monitor.app.screen.refresh()
        await monitor.press("down", "o", "escape", "t", "space", "slash", *"mem>1", "enter", "K", "escape", "escape")
        await monitor.see(with_utilization(99, 2))
        await monitor.press("tab", "enter", "right", "z", "escape", "shift+tab", "enter", "question_mark", "escape")
        await monitor.see(scenes.snapshot(devices=scenes.node().devices._replace(problem=scenes.PROBLEM), number=3))
        await monitor.press("escape", "ctrl+p", "escape", "D")
        await monitor.until(lambda: monitor.app.snapshot.is_demo)
        await monitor.settle()
        for difference in wire.sent:
            terminal.feed(difference)
        assert [line.rstrip() for line in terminal.text.split("\n")] == monitor.lines
