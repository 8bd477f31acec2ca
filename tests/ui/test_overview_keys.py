"""Keys of the overview that act on the row under the cursor: attach, copy, fold, zoom."""

from __future__ import annotations

import pytest

from gputui.model.machine.snapshot import Snapshot
from gputui.ui.attach.attached import Attached
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor


def record_attaching(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The PIDs that the monitor attaches to from now on."""
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr(Attached, "attach", lambda _self, *pids: calls.append(pids))
    return calls


async def test_a_attaches_to_the_process_under_the_cursor(monkeypatch: pytest.MonkeyPatch):
    async with open_monitor() as monitor:
        calls = record_attaching(monitor, monkeypatch)
        await monitor.press("down", "a")
        assert calls == [(2020,)]


async def test_a_on_a_job_attaches_to_all_its_ranks(monkeypatch: pytest.MonkeyPatch):
    async with open_monitor() as monitor:
        calls = record_attaching(monitor, monkeypatch)
        await monitor.press("t", "home", "a")
        assert calls == [(2010, 2020, 2030, 2040)]


async def test_a_without_a_process_says_what_to_do():
    async with open_monitor() as monitor:
        await monitor.press("end", "a")
        assert any("No process is under the cursor" in notice for notice in monitor.notices)


async def test_enter_on_a_job_folds_and_unfolds_its_ranks():
    async with open_monitor() as monitor:
        await monitor.press("t", "home", "enter")
        assert "[+] job of launcher 2000" in monitor.text
        assert 2010 not in monitor.pids
        await monitor.press("enter")
        assert "[-] job of launcher 2000" in monitor.text
        assert 2010 in monitor.pids


async def test_enter_on_memory_without_a_process_says_whose_it_may_be():
    async with open_monitor() as monitor:
        await monitor.press("end", "enter")
        assert any(notice.startswith("Unattributed: a process in another container") for notice in monitor.notices)


async def test_y_copies_the_pid_the_command_or_the_uuid():
    async with open_monitor() as monitor:
        await monitor.press("y")
        assert monitor.app.clipboard == "2010"
        await monitor.press("Y")
        assert monitor.app.clipboard == "python train.py --config gpt.yaml"
        await monitor.press("tab", "y")
        assert monitor.app.clipboard == "GPU-00000000"


async def test_z_zooms_the_graphs_of_the_overview():
    async with open_monitor(size=(120, 40)) as monitor:
        assert "2 s per cell" in monitor.text
        await monitor.press("z")
        assert "10 s per cell" in monitor.text


async def test_z_says_where_there_are_graphs_on_a_narrow_terminal():
    async with open_monitor(size=(80, 24)) as monitor:
        await monitor.press("z")
        assert any("from 120 columns on" in notice for notice in monitor.notices)


async def test_percentages_are_of_the_numbers_beside_them():
    async with open_monitor(small_use(), size=(80, 24)) as monitor:
        row = next(line for line in monitor.lines if "3.9G/79.6G" in line)
        assert " 5% " in row


def small_use() -> Snapshot:
    """A device that uses 3.9 of 79.6 GiB, with as much again reserved by the driver."""
    gib = 1024**3
    memory = scenes.DeviceMemory(int(79.6 * gib), int(3.9 * gib), int(74.7 * gib), gib)
    return scenes.snapshot((scenes.device(memory=memory),))


async def test_the_palette_knows_attach():
    async with open_monitor() as monitor:
        titles = [command.title for command in monitor.app.get_system_commands(monitor.app.screen)]
        assert "Attach" in titles


@pytest.mark.parametrize("size", [(40, 10), (60, 15)], ids=str)
async def test_host_memory_outlives_swap_and_shared_memory(size):
    async with open_monitor(size=size) as monitor:
        line = next(line for line in monitor.lines if "swap" in line or "RAM" in line)
        assert line.startswith(" RAM")
