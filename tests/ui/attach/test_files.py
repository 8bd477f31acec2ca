"""A file of one moment on the attach screens: its name instead of a PID, and no keys that need a program."""

from __future__ import annotations

from gputui.settings import Settings
from gputui.sources.files.still import StillFeed
from gputui.sources.files.torch_snapshot.snapshot import open_snapshot
from gputui.sources.named_machine import NamedMachine
from gputui.ui.app import GputuiApp
from tests.opening.test_torch_snapshot import FILES
from tests.ui.attach.sitting import StillMachine
from tests.ui.running import Running

NEED_A_PROGRAM = ("look", "scan", "mark", "choose_action", "go_back", "now", "zoom", "play", "seek")


def opened(name: str) -> GputuiApp:
    """The application as `gputui open` starts it for a snapshot."""
    moment = open_snapshot(FILES[name])
    app = GputuiApp(
        Settings(interval_s=3600.0),
        NamedMachine(lambda: moment.time),
        StillMachine,
        open_feed=lambda _snapshot: lambda _pid, take: StillFeed(moment, take),
    )
    app.attached.is_replay = app.attached.is_still = True
    app.attached.first_pids = (moment.pid,)
    return app


async def test_a_snapshot_is_shown_by_its_name_without_keys_for_a_program():
    app = opened("history-2.11")
    async with app.run_test(size=(80, 24)) as pilot:
        running = Running(app, pilot)
        await running.until(lambda: "snapshot history-2.11.pickle" in running.text)
        assert "allocated         33.1 MiB" in running.text
        assert "unattributed" not in running.text
        assert "line of code that allocated it" in running.text
        actions = {active.binding.action.partition("(")[0] for active in app.screen.active_bindings.values()}
        assert not actions & set(NEED_A_PROGRAM)
        for key, words in {"3": "Small pool", "4": "unattributed, by line of code"}.items():
            await pilot.press(key)
            await running.until(lambda words=words: words in running.text)
        for key in "56":
            await pilot.press(key)
            await pilot.pause()
            assert "by line of code" in running.text
        await pilot.press("escape")
        await running.until(lambda: app._exit)


async def test_the_step_screen_shows_the_peak_of_a_backward_pass_with_its_four_holders():
    app = opened("mean-2.11")
    async with app.run_test(size=(80, 24)) as pilot:
        running = Running(app, pilot)
        await pilot.press("7")
        await running.until(lambda: "peak 12.0 GiB in backward (event 23 of 29)" in running.text)

        def rows() -> list[str]:
            return [line for line in running.text.splitlines() if line.lstrip().startswith("3.0 GiB")]

        await running.until(lambda: len(rows()) == 4)
        words = " ".join(rows())
        assert [words.count(place) for place in ("make.py:42", "make.py:43", "backward")] == [1, 1, 2]
        await pilot.press("escape")
        await running.until(lambda: app._exit)
