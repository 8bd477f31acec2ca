"""Actions from the keyboard: the confirmation, the outcome, and when no action is offered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import Button

from gputui.model.attached.analysis import Outcome
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import ActionName, Disconnect, DisconnectKind, Recorder
from gputui.ui.dialogs.confirm import Confirm
from gputui.ui.dialogs.menu import Menu
from gputui.ui.screens.help import HelpScreen
from gputui.ui.widgets.painted import Notes
from tests.explain.maps import segment
from tests.explain.moments import GREETING, moment
from tests.ui.attach.sitting import DealtFeed, Sitting, sitting

ACTING = replace(GREETING, actions=tuple(name.value for name in ActionName))
DONE = Outcome(
    101.0,
    ActionName.EMPTY_CACHE,
    ("torch.cuda.empty_cache(): 40.0 MiB predicted, 40.0 MiB returned on device 0.", "It took 3.1 ms."),
    is_as_predicted=True,
)


def moment_with(time: float = 100.0, **changes: object) -> TargetMoment:
    """A process that accepts actions, with 40 MiB releasable."""
    return replace(moment(segment(("free", 40)), time=time), greeting=ACTING, **changes)


KEYS = {
    "g": (ActionName.COLLECT, "Run gc.collect() in process 7?", "a scan (s) finds what only reference cycles keep"),
    "e": (ActionName.EMPTY_CACHE, "Run torch.cuda.empty_cache() in process 7?", "40.0 MiB predicted, of 40.0 MiB"),
    "h": (ActionName.HISTORY_ON, "Have process 7 record its memory history?", "about 2 us longer"),
}


@pytest.mark.parametrize("key", KEYS)
async def test_an_action_asks_for_confirmation_with_the_focus_on_cancel(key: str) -> None:
    name, question, fact = KEYS[key]
    async with sitting(moment_with()) as at:
        await at.press("x", key)
        assert isinstance(at.app.screen, Confirm)
        assert at.app.focused is at.app.screen.query_one("#cancel", Button)
        words = " ".join(at.text.replace("│", " ").split())
        assert question in words
        assert fact in words
        await at.press("enter")
        assert (at.screen, at.feed.actions) == ("memory", [])
        await at.press("x", key, "tab", "enter")
        assert (at.screen, at.feed.actions) == ("memory", [name])


async def test_a_prediction_is_whole_in_a_narrow_terminal_and_has_both_numbers_of_the_device() -> None:
    now = moment_with()
    driver = replace(now.devices[0].driver, nvml_index=1)
    async with sitting(replace(now, devices=(replace(now.devices[0], driver=driver),)), size=(60, 24)) as at:
        await at.press("x", "e")
        assert "device 0 (GPU 1): 40.0 MiB predicted, of 40.0" in at.text
        assert "MiB reserved (look 0s ago)" in at.text


async def test_only_history_that_the_probe_started_can_be_switched_off() -> None:
    async with sitting(moment_with(history=Recorder.PROBE)) as at:
        await at.press("x", "h", "tab", "enter")
        assert at.feed.actions == [ActionName.HISTORY_OFF]
        await at.deal(moment_with(101.0, history=Recorder.PROGRAM))
        await at.press("x")
        assert "memory history" not in at.text
        await at.press("h", "escape")
        assert at.feed.actions == [ActionName.HISTORY_OFF]


async def test_every_screen_has_the_menu_and_a_scan_needs_no_confirmation() -> None:
    async with sitting(moment_with()) as at:
        for scans, screen in enumerate("123456", start=1):
            await at.press(screen, "x")
            assert isinstance(at.app.screen, Menu), screen
            await at.press("S")
            assert (at.feed.looks, at.feed.actions) == (["scan"] * scans, []), screen
            assert not isinstance(at.app.screen, (Menu, Confirm)), screen


async def test_an_actions_progress_and_outcome_are_shown_until_dismissed() -> None:
    async with sitting(moment_with()) as at:
        assert lines_of(at) == ""
        await at.deal(moment_with(101.0, pending_action=ActionName.EMPTY_CACHE))
        assert "torch.cuda.empty_cache(): waiting for the program" in lines_of(at)
        await at.deal(moment_with(102.0, outcome=DONE))
        assert "40.0 MiB predicted, 40.0 MiB returned on device 0. It took 3.1 ms." in lines_of(at)
        await at.press("3")
        await at.deal(moment_with(103.0, outcome=DONE))
        assert "It took 3.1 ms." in lines_of(at)
        await at.press("escape")
        assert (at.screen, lines_of(at)) == ("map", "")
        await at.deal(moment_with(104.0, outcome=DONE))
        assert lines_of(at) == ""
        await at.deal(moment_with(105.0, outcome=replace(DONE, time=104.5)))
        assert "It took 3.1 ms." in lines_of(at)
        await at.press("escape", "escape")
        assert at.screen == ""


async def test_readonly_removes_the_key_and_its_help() -> None:
    async with sitting(moment_with(), size=(100, 200), is_readonly=True) as at:
        await at.press("x", "e", "tab", "enter")
        assert (at.screen, at.feed.actions) == ("memory", [])
        assert not [key for key in at.app.screen.active_bindings.values() if key.binding.action == "choose_action"]
        await at.press("question_mark")
        assert isinstance(at.app.screen, HelpScreen)
        assert help_ids(at) == set()


async def test_the_help_lists_the_key() -> None:
    async with sitting(moment_with(), size=(100, 200)) as at:
        await at.press("question_mark")
        assert help_ids(at) == {"actions.menu"}


class Recorded(DealtFeed):
    """A feed of a recording, which has no process to act on."""

    run_action = None  # type: ignore[assignment]


async def test_a_recording_offers_no_actions() -> None:
    async with sitting(moment_with(), feed=Recorded) as at:
        await at.press("x")
        assert at.screen == "memory"


async def test_an_ended_process_offers_no_actions() -> None:
    async with sitting(moment_with(), moment_with(101.0, ended=Disconnect(DisconnectKind.EXITED))) as at:
        await at.press("x")
        assert at.screen == "memory"


async def test_a_process_that_ends_during_confirmation_gets_no_action() -> None:
    async with sitting(moment_with()) as at:
        await at.press("x", "e")
        await at.deal(moment_with(101.0, ended=Disconnect(DisconnectKind.EXITED)))
        await at.press("tab", "enter")
        assert at.feed.actions == []


async def test_a_probe_that_refuses_actions_is_reported() -> None:
    async with sitting(moment(segment(("free", 40)))) as at:
        await at.press("x")
        assert at.screen == "memory"
        assert "GPUTUI_PROBE_ACTS is 0" in " ".join(notice.message for notice in at.app._notifications)


def lines_of(at: Sitting) -> str:
    """The text of the action line, below the target's line."""
    line = at.app.screen.query_one("#action", Notes)
    assert line.size.height == len(line.lines)
    return " ".join("".join(text for text, _ in pieces).strip() for pieces in line.lines)


def help_ids(at: Sitting) -> set[str]:
    return {word for word in at.text.split() if word.startswith("actions.")}
