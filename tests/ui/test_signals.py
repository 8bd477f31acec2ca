"""Signals: requested, confirmed, and sent to exactly the processes named in the dialog, or refused."""

from __future__ import annotations

import signal

import pytest
from textual.widgets import Button

from gputui.model.machine.process import Identity
from gputui.ui.screens.signals import KILL_WARNING
from tests.ui import scenes
from tests.ui.monitor import open_monitor

FIRST = Identity(2010, scenes.NOW - 3600.0)


@pytest.mark.parametrize(
    ("key", "name"), [("T", "SIGTERM"), ("K", "SIGKILL"), ("I", "SIGINT")], ids=["terminate", "kill", "interrupt"]
)
class TestAKeyForASignal:
    async def test_asks_first_and_sends_nothing_without_confirmation(self, key, name):
        async with open_monitor() as monitor:
            for answer in ("enter", "escape", "q", "n"):
                await monitor.press(key)
                assert f"Send {name} to this process?" in monitor.text
                assert "2010  ana  train.py" in monitor.text
                assert monitor.app.focused.id == "cancel"
                await monitor.press(answer)
                assert monitor.screen == "Overview", answer
                assert monitor.machine.sent == [], answer

    async def test_sends_the_signal_to_the_process_by_identity(self, key, name):
        async with open_monitor() as monitor:
            for count, other in enumerate(("tab", "right", "left", "l", "shift+tab"), start=1):
                await monitor.press(key, other, "enter")
                assert monitor.machine.sent == [(FIRST, getattr(signal, name))] * count, other
                assert monitor.notices[-1] == f"{name} sent to 1 process.", other


async def test_only_sigkill_shows_a_warning():
    async with open_monitor() as monitor:
        await monitor.press("K")
        assert KILL_WARNING.split(".")[0] in monitor.text
        await monitor.press("escape", "T")
        assert KILL_WARNING.split(".")[0] not in monitor.text


async def test_the_whole_warning_is_visible_on_80_columns():
    async with open_monitor(size=(80, 24)) as monitor:
        await monitor.press("K")
        assert "checkpoint." in monitor.text


async def test_the_buttons_stay_visible_with_many_long_commands():
    many = tuple(scenes.process(1000 + number, command="python train.py " + 100 * "x") for number in range(12))
    async with open_monitor(scenes.snapshot(scenes.devices(1), many), size=(80, 24)) as monitor:
        await monitor.press(*["space"] * 12, "K")
        assert "Cancel" in monitor.text


async def test_the_focused_button_is_visible_on_a_tiny_terminal():
    async with open_monitor(size=(20, 10)) as monitor:
        await monitor.press("K")
        await monitor.until(lambda: "Cancel" in monitor.text)  # Textual scrolls to it some time after focusing it


async def test_a_command_cannot_write_over_the_dialog():
    evil = scenes.process(command="a\nb\x1b[2Jc\rd")
    async with open_monitor(scenes.snapshot(scenes.devices(1), (evil,))) as monitor:
        await monitor.press("T")
        assert "a?b?[2Jc?d" in monitor.text


async def test_f9_offers_every_signal_and_confirms_the_chosen_one():
    async with open_monitor() as monitor:
        await monitor.press("f9")
        assert all(name in monitor.text for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGSTOP", "SIGCONT", "SIGKILL"))
        await monitor.press("down", "enter")
        assert "Send SIGTERM to this process?" in monitor.text
        await monitor.press("tab", "enter")
        assert monitor.machine.sent == [(FIRST, signal.SIGTERM)]


async def test_escape_in_the_signal_menu_sends_nothing():
    async with open_monitor() as monitor:
        await monitor.press("f9", "escape")
        assert (monitor.screen, monitor.machine.sent) == ("Overview", [])


async def test_a_signal_goes_to_all_tagged_processes():
    async with open_monitor() as monitor:
        await monitor.press("space", "space", "down", "T")
        assert "Send SIGTERM to these 2 processes?" in monitor.text
        await monitor.press("tab", "enter")
        assert [identity.pid for identity, _ in monitor.machine.sent] == [2010, 2020]
        assert monitor.notices == ["SIGTERM sent to 2 processes."]


async def test_a_long_list_of_tagged_processes_is_shortened_with_a_count():
    many = scenes.snapshot(scenes.devices(1), tuple(scenes.process(1000 + number) for number in range(12)))
    async with open_monitor(many) as monitor:
        await monitor.press(*["space"] * 12, "T")
        assert "and 4 more" in monitor.text


async def test_a_refused_signal_shows_the_reason():
    async with open_monitor() as monitor:
        monitor.machine.refusal = "Process 2010 is owned by root."
        await monitor.press("T", "tab", "enter")
        assert monitor.notices == ["Process 2010 is owned by root."]
        assert "owned by root" in monitor.text


@pytest.mark.parametrize("key", ["T", "f9"])
async def test_a_row_without_a_process_gets_no_signal(key):
    async with open_monitor() as monitor:
        await monitor.press("end", key)
        assert monitor.screen == "Overview"
        assert monitor.notices == [
            "No process is under the cursor or tagged: move the cursor to a process, or tag some with Space."
        ]


async def test_the_dialog_keeps_its_process_when_the_list_changes():
    async with open_monitor() as monitor:
        await monitor.press("T")
        before = monitor.text
        await monitor.see(scenes.snapshot(scenes.devices(1), (scenes.process(9),), number=2))
        assert monitor.text == before
        await monitor.press("tab", "enter")
        assert monitor.machine.sent == [(FIRST, signal.SIGTERM)]
        assert monitor.pids == [9]


async def test_the_screen_stays_still_under_an_open_dialog():
    async with open_monitor() as monitor:
        for pid, opener in enumerate(("o", "f9", "T", "ctrl+p"), start=9):
            await monitor.press(opener)
            before = monitor.text
            await monitor.see(scenes.snapshot(scenes.devices(1), (scenes.process(pid),), number=pid))
            assert monitor.text == before, opener
            await monitor.press("escape")
            await monitor.until(lambda pid=pid: monitor.screen == "Overview" and monitor.pids == [pid])


async def test_the_process_screen_sends_signals_too():
    async with open_monitor() as monitor:
        await monitor.press("enter", "K", "tab", "enter")
        assert monitor.machine.sent == [(FIRST, signal.SIGKILL)]
        await monitor.press("f9")
        assert monitor.screen == "Menu"


async def test_the_buttons_react_to_mouse_clicks():
    async with open_monitor() as monitor:
        await monitor.press("T")
        await monitor.pilot.click("#confirm")
        await monitor.settle()
        assert monitor.machine.sent == [(FIRST, signal.SIGTERM)]
        await monitor.press("T")
        await monitor.pilot.click("#cancel")
        await monitor.settle()
        assert len(monitor.machine.sent) == 1


async def test_the_button_names_the_action():
    async with open_monitor() as monitor:
        await monitor.press("I")
        assert str(monitor.app.screen.query_one("#confirm", Button).label) == "Send SIGINT"
