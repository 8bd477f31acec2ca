"""The filter line: typing narrows the list; an invalid expression shows its error and leaves the list unchanged."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.screens.help import FILTER
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor


async def type_filter(monitor: Monitor, text: str) -> None:
    await monitor.press("slash", *text)


def filter_line(monitor: Monitor) -> Input:
    return monitor.app.screen.query_one("#filter", Input)


FILTERS = {
    "a word of the command": ("vllm", [3000]),
    "a user": ("carla", [3100, 3100]),
    "a PID": ("3200", [3200]),
    "an expression": ("mem>10GiB", [2010, 2020, 2030, 2040, 3000]),
    "two expressions": ("user==llm or rank==0", [2010, 3000]),
    "nothing": ("nobody", []),
}


def test_the_help_names_every_field_in_which_words_are_searched():
    sentence = FILTER.partition(".")[0].lower()
    assert [name for name in PROCESS_FIELDS.searched if name not in sentence] == []


async def test_typing_narrows_the_list():
    async with open_monitor() as monitor:
        for what, (text, pids) in FILTERS.items():
            await type_filter(monitor, text)
            assert monitor.pids == pids, what
            await monitor.press("escape")
            assert len(monitor.pids) == 9


async def test_enter_keeps_the_filter_and_focuses_the_list():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter")
        assert not filter_line(monitor).display
        assert monitor.table.has_focus
        assert monitor.pids == [3000]
        assert "filter: vllm" in monitor.lines[0]


async def test_escape_in_the_filter_line_clears_the_filter():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("escape")
        assert not filter_line(monitor).display
        assert monitor.table.has_focus
        assert len(monitor.pids) == 9
        assert "filter" not in monitor.lines[0]


async def test_escape_in_the_list_clears_the_filter():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter", "escape")
        assert len(monitor.pids) == 9


async def test_slash_again_reopens_the_filter_for_editing():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter", "slash")
        assert filter_line(monitor).value == "vllm"
        await monitor.press("end", "backspace", "backspace", "backspace", "backspace", "enter")
        assert len(monitor.pids) == 9


async def test_an_invalid_expression_shows_its_error_and_keeps_the_last_valid_filter():
    async with open_monitor() as monitor:
        await type_filter(monitor, "mem>10GiB")
        good = monitor.pids
        await monitor.press(*" and usr==ana")
        assert monitor.pids == good
        assert "has no field 'usr'" in monitor.text
        assert filter_line(monitor).has_class("-wrong")
        await monitor.press("enter")
        assert filter_line(monitor).display
        assert "has no field 'usr'" in monitor.text or any("has no field 'usr'" in said for said in monitor.notices)
        assert monitor.pids == good


async def test_correcting_an_expression_clears_its_error():
    async with open_monitor() as monitor:
        await type_filter(monitor, "usr==ana")
        await monitor.press("home", "right", "right", *"e", "end")
        assert not filter_line(monitor).has_class("-wrong")
        assert "has no field 'usr'" not in monitor.text


async def test_letters_typed_in_the_filter_line_are_not_commands():
    async with open_monitor() as monitor:
        await type_filter(monitor, "qpKoT")
        assert filter_line(monitor).value == "qpKoT"
        assert monitor.screen == "Overview"
        assert not monitor.app.state.is_paused


async def test_the_filter_line_leaves_the_bottom_line_visible():
    async with open_monitor(size=(80, 24)) as monitor:
        await type_filter(monitor, "python")
        assert "python" in monitor.lines[-3]
        assert "Quit" in monitor.lines[-1] or "Help" in monitor.lines[-1]


async def test_a_filter_on_a_field_that_nothing_has_gives_a_hint():
    async with open_monitor(scenes.snapshot(scenes.devices(1), (scenes.process(),))) as monitor:
        await type_filter(monitor, "rank==0")
        assert "No process here has a value for rank." in monitor.text
        assert not filter_line(monitor).has_class("-wrong")


@pytest.mark.parametrize(("width", "notices"), [(120, 0), (40, 1)])
async def test_enter_on_a_wrong_filter_says_why_once(width, notices):
    async with open_monitor(size=(width, 24)) as monitor:
        await type_filter(monitor, "mem>1000")
        await monitor.press("enter")
        assert filter_line(monitor).display
        assert len(monitor.notices) == notices
        subtitle = str(filter_line(monitor).border_subtitle)
        assert ("needs a unit after mem>1000" in subtitle) is (notices == 0)
