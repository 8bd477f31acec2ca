"""The filter line: typing narrows the list, a wrong expression says what is wrong and changes nothing."""

from __future__ import annotations

from textual.widgets import Input

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


async def test_the_list_narrows_while_one_types():
    async with open_monitor() as monitor:
        for what, (text, pids) in FILTERS.items():
            await type_filter(monitor, text)
            assert monitor.pids == pids, what
            await monitor.press("escape")
            assert len(monitor.pids) == 9


async def test_enter_keeps_the_filter_and_gives_the_list_the_keyboard():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter")
        assert not filter_line(monitor).display
        assert monitor.table.has_focus
        assert monitor.pids == [3000]
        assert "filter: vllm" in monitor.lines[0]


async def test_escape_in_the_line_drops_the_filter():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("escape")
        assert not filter_line(monitor).display
        assert monitor.table.has_focus
        assert len(monitor.pids) == 9
        assert "filter" not in monitor.lines[0]


async def test_escape_in_the_list_drops_the_filter():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter", "escape")
        assert len(monitor.pids) == 9


async def test_slash_again_shows_the_filter_to_change_it():
    async with open_monitor() as monitor:
        await type_filter(monitor, "vllm")
        await monitor.press("enter", "slash")
        assert filter_line(monitor).value == "vllm"
        await monitor.press("end", "backspace", "backspace", "backspace", "backspace", "enter")
        assert len(monitor.pids) == 9


async def test_a_wrong_expression_says_so_and_the_last_good_filter_stays():
    async with open_monitor() as monitor:
        await type_filter(monitor, "mem>10GiB")
        good = monitor.pids
        await monitor.press(*" and usr==ana")
        assert monitor.pids == good
        assert "has no field 'usr'" in monitor.text
        assert filter_line(monitor).has_class("-wrong")
        await monitor.press("enter")
        assert filter_line(monitor).display
        assert any("has no field 'usr'" in notice for notice in monitor.notices)
        assert monitor.pids == good


async def test_a_mended_expression_loses_its_complaint():
    async with open_monitor() as monitor:
        await type_filter(monitor, "usr==ana")
        await monitor.press("home", "right", "right", *"e", "end")
        assert not filter_line(monitor).has_class("-wrong")
        assert "has no field 'usr'" not in monitor.text


async def test_letters_in_the_line_are_text_and_no_commands():
    async with open_monitor() as monitor:
        await type_filter(monitor, "qpKoT")
        assert filter_line(monitor).value == "qpKoT"
        assert monitor.screen == "Overview"
        assert not monitor.app.state.is_paused


async def test_the_line_covers_neither_the_bottom_line_nor_all_of_a_small_list():
    async with open_monitor(size=(80, 24)) as monitor:
        await type_filter(monitor, "python")
        assert "python" in monitor.lines[-3]
        assert "Quit" in monitor.lines[-1] or "Help" in monitor.lines[-1]
