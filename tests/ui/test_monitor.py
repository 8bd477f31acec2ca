"""The monitor as a whole: pause, interval, palette, help, read-only, other keys, quitting."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList

from gputui.errors import UsageError
from gputui.settings import KeyChange
from gputui.ui.app import GputuiApp
from gputui.ui.intervals import INTERVALS_S
from gputui.ui.messages import SnapshotTaken
from gputui.ui.screens.help import default_keys
from tests.ui import scenes
from tests.ui.monitor import NEVER_S, Monitor, open_monitor


async def test_pause_stops_reading_and_is_shown_in_the_top_line():
    async with open_monitor(interval_s=0.1) as monitor:
        await monitor.press("p")
        assert "PAUSED" in monitor.lines[0]
        looks = monitor.machine.looks
        await monitor.press("f5", "o", "escape", "enter", "escape", "down", "tab")
        assert monitor.machine.looks <= looks + 1  # one look may have been in progress
        await monitor.press("p")
        assert "PAUSED" not in monitor.lines[0]
        await monitor.until(lambda: monitor.machine.looks > looks + 2)


@pytest.mark.parametrize(
    ("start_s", "key", "then_s"),
    [
        pytest.param(1.0, "plus", 2.0, id="plus is slower"),
        pytest.param(1.0, "equals_sign", 2.0, id="equals, plus without Shift, is slower"),
        pytest.param(1.0, "minus", 0.5, id="minus is faster"),
        pytest.param(INTERVALS_S[-1], "plus", INTERVALS_S[-1], id="plus stops at the slowest"),
        pytest.param(INTERVALS_S[0], "minus", INTERVALS_S[0], id="minus stops at the fastest"),
        pytest.param(1.7, "plus", 2.0, id="plus goes to the next listed interval"),
        pytest.param(1.7, "minus", 1.0, id="minus goes to the next listed interval"),
        pytest.param(600.0, "plus", 600.0, id="an interval from the settings may exceed the slowest"),
        pytest.param(600.0, "minus", 60.0, id="minus goes from there to the slowest listed"),
    ],
)
async def test_plus_and_minus_change_the_interval(start_s, key, then_s):
    async with open_monitor(interval_s=start_s) as monitor:
        await monitor.press("p", key)
        assert monitor.app.snapshot.interval_s == then_s
        assert f"  {then_s:g}s  " in monitor.lines[0]
        await monitor.press("p")
        await monitor.until(lambda: monitor.app.snapshot.interval_s == then_s)


async def test_f5_looks_immediately():
    async with open_monitor() as monitor:
        looks = monitor.machine.looks
        await monitor.press("f5")
        await monitor.until(lambda: monitor.machine.looks == looks + 1)


async def test_d_opens_the_demonstration_and_labels_it():
    async with open_monitor(demo=scenes.snapshot(scenes.devices(2), number=7, is_demo=True)) as monitor:
        await monitor.press("D")
        await monitor.until(lambda: monitor.app.snapshot.number == 7)
        await monitor.settle()
        assert "DEMONSTRATION" in monitor.lines[0]
        assert sum("H100" in line for line in monitor.lines) == 2
        assert not monitor.machine.is_closed


@pytest.mark.parametrize("key", ["q", "f10", "ctrl+c"])
@pytest.mark.parametrize("opener", [(), ("enter",), ("question_mark",), ("tab", "enter")], ids="-".join)
async def test_quit_keys_end_the_program_on_every_screen(key, opener):
    async with open_monitor() as monitor:
        await monitor.press(*opener)
        await monitor.pilot.press(key)
        await monitor.until(lambda: not monitor.app.is_running or monitor.app._exit)


async def test_ctrl_c_quits_from_the_filter_line_and_from_a_dialog():
    for opener in ("slash", "K", "o"):
        async with open_monitor() as monitor:
            await monitor.press(opener)
            await monitor.pilot.press("ctrl+c")
            await monitor.until(lambda: monitor.app._exit)


class TestHelp:
    @pytest.mark.parametrize("key", ["question_mark", "f1"])
    async def test_opens_with_one_key(self, key):
        async with open_monitor() as monitor:
            await monitor.press(key)
            assert monitor.screen == "HelpScreen"
            await monitor.press(key)
            assert len(monitor.app.screen_stack) == 3
            await monitor.press("escape")
            assert monitor.screen == "Overview"

    async def test_lists_every_action_once(self):
        async with open_monitor(size=(120, 200)) as monitor:
            await monitor.press("question_mark")
            last_words = [line.split()[-1] for line in monitor.lines if line.strip()]
            here = [name for name in default_keys(GputuiApp) if not name.startswith("fleet.")]  # on a screen of its own
            assert [name for name in here if last_words.count(name) != 1] == []

    async def test_scrolls(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("question_mark", "end")
            assert "[keys]" in monitor.text
            await monitor.press("home")
            assert "Everywhere" in monitor.text
            await monitor.press("space")
            assert "Everywhere" not in monitor.text


async def palette_entries(monitor: Monitor) -> list[str]:
    await monitor.press("ctrl+p")
    await monitor.until(lambda: monitor.app.screen.query_one(OptionList).option_count > 0)
    listed = monitor.app.screen.query_one(OptionList)
    return [str(listed.get_option_at_index(place).prompt) for place in range(listed.option_count)]


def actions_of(screen) -> set[str]:
    return {active.binding.action for active in screen.active_bindings.values() if active.binding.id}


class TestPalette:
    @pytest.mark.parametrize("opener", [(), ("enter",), ("tab", "enter")], ids=["overview", "process", "device"])
    async def test_has_every_action_of_the_screen_below(self, opener):
        async with open_monitor() as monitor:
            await monitor.press(*opener)
            screen = monitor.app.screen
            commands = list(monitor.app.get_system_commands(screen))
            assert {command.callback.args[0] for command in commands[:-2]} == actions_of(screen)
            titles = [command.title for command in commands]
            entries = "\n".join(await palette_entries(monitor))
            assert [title for title in titles if title not in entries] == []

    async def test_runs_the_chosen_action_on_the_screen_below(self):
        async with open_monitor() as monitor:
            await monitor.press("ctrl+p", *"Kill")
            await monitor.until(lambda: monitor.app.screen.query_one(OptionList).option_count > 0)
            await monitor.press("enter")
            await monitor.until(lambda: monitor.screen == "Confirm")
            assert "Send SIGKILL to this process?" in monitor.text

    async def test_closes_with_escape(self):
        async with open_monitor() as monitor:
            await monitor.press("ctrl+p", "escape")
            assert monitor.screen == "Overview"


class TestReadOnly:
    @pytest.mark.parametrize("opener", [(), ("enter",)], ids=["overview", "process screen"])
    async def test_no_key_sends_a_signal_and_no_signal_is_offered(self, opener):
        async with open_monitor(readonly=True) as monitor:
            await monitor.press(*opener)
            before = monitor.screen
            for key in ("T", "K", "I", "f9"):
                await monitor.press(key)
                assert monitor.screen == before, key
            offered = "\n".join([monitor.lines[-1], *await palette_entries(monitor)])
            assert [
                word for word in ("SIGTERM", "SIGKILL", "SIGINT", "Signal", "Kill", "Term") if word in offered
            ] == []

    async def test_the_help_lists_no_signal(self):
        async with open_monitor(readonly=True, size=(120, 200)) as monitor:
            await monitor.press("question_mark")
            words = ("SIGTERM", "SIGKILL", "signal.", "Signals", "processes.tag")
            assert [word for word in words if word in monitor.text] == []
            assert "processes.sort" in monitor.text

    async def test_space_tags_nothing_because_tags_are_for_signals(self):
        async with open_monitor(readonly=True) as monitor:
            before = monitor.text
            await monitor.press("space")
            assert monitor.text == before
            assert "Tag" not in "\n".join(await palette_entries(monitor))


class TestOtherKeys:
    KEYS = (KeyChange("processes.filter", ("f3",), "here"), KeyChange("app.quit", ("Q", "ctrl+q"), "here"))

    async def test_replace_the_default_keys(self):
        async with open_monitor(keys=self.KEYS) as monitor:
            await monitor.press("slash", "q")
            assert monitor.table.has_focus
            assert not monitor.app._exit
            await monitor.press("f3")
            assert monitor.app.focused.id == "filter"
            await monitor.press("escape")
            await monitor.pilot.press("Q")
            await monitor.until(lambda: monitor.app._exit)

    async def test_appear_in_the_bottom_line(self):
        async with open_monitor(keys=self.KEYS) as monitor:
            assert "f3 Filter" in monitor.lines[-1]
            assert "Q Quit" in monitor.lines[-1]
            await monitor.click("f3 Filter")
            assert monitor.app.focused.id == "filter"

    async def test_appear_in_the_help(self):
        async with open_monitor(keys=self.KEYS, size=(120, 60)) as monitor:
            await monitor.press("question_mark")
            assert any(line.split()[:1] == ["f3"] and line.endswith("processes.filter") for line in monitor.lines)
            assert any(line.split()[:2] == ["Q", "^q"] and line.endswith("app.quit") for line in monitor.lines)

    async def test_for_an_unknown_action_are_an_error(self):
        with pytest.raises(UsageError, match=r"here: there is no action 'app.quid'.*app.quit"):
            async with open_monitor(keys=(KeyChange("app.quid", ("x",), "here"),)):
                pass


async def test_link_rates_are_read_only_for_devices_that_show_them():
    async with open_monitor(size=(120, 40)) as monitor:
        assert monitor.machine.attention.devices == frozenset()
        await monitor.press("tab", "enter")
        await monitor.until(lambda: monitor.machine.attention.devices == {"GPU-00000000"})
        await monitor.press("right")
        await monitor.until(lambda: monitor.machine.attention.devices == {"GPU-00000001"})
        await monitor.press("escape")
        await monitor.press("f5")
        await monitor.until(lambda: monitor.machine.attention.devices == frozenset())


async def test_a_wide_terminal_shows_link_rates_from_the_start():
    async with open_monitor(size=(200, 50)) as monitor:
        await monitor.until(lambda: len(monitor.machine.attention.devices) == 8)


async def test_link_rates_are_read_for_devices_that_appear_later():
    async with open_monitor(scenes.snapshot(), size=(200, 50)) as monitor:
        await monitor.see(scenes.node(2))
        await monitor.until(lambda: len(monitor.machine.attention.devices) == 8)


async def test_the_test_interval_prevents_automatic_looks():
    async with open_monitor() as monitor:
        assert monitor.app.settings.interval_s == NEVER_S
        assert monitor.machine.looks <= 2


async def test_a_snapshot_that_arrives_after_closing_is_ignored():
    async with open_monitor() as monitor:
        pass
    monitor.app.on_snapshot_taken(SnapshotTaken(monitor.machine.snapshot))
