"""Random keys and sizes for a running application, the figures of a run, and what may reach the terminal."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from textual.widgets import Input

from gputui.ui.app import GputuiApp
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.screens.help import HelpScreen
from tests.scale import sized
from tests.ui.running import Running

PRESSES = sized(8, 60)
"""The keys of one case."""
COLUMNS, LINES = (40, 200), (10, 60)

KEYS = (
    *("123456" * 4),
    *"abdefghijklmnoprstuvxyz",
    *"GAIBCMST+-=<>[]{}().,",
    *("asterisk", "slash", "space", "enter", "escape", "backspace", "tab", "shift+tab"),
    *("up", "down", "left", "right", "pageup", "pagedown", "home", "end"),
    *("question_mark", "f5", "ctrl+l"),
)
"""All but those that quit, suspend, save a picture or leave for the demonstration."""

LEAVING = ("escape", "backspace")
"""They end a replay."""

OURS = re.compile(r"\x1b\[(?:[0-9;]*m|[0-9;]*H|[0-9]*[ABCDGXKdP])|\r|\n|\x08+")
"""What `Pen` writes beside text."""
OBEYED = ("\x1b[99m", "\x1b]0;owned", "\x9b99m", "\u202e", "\u2066")
"""The control sequences of `mutations.CONTROL_SEQUENCES`, which no program here writes."""
CELL_BYTES = 60
"""More than a cell takes on average: a character of four bytes with as many marks, a colour, a move of the cursor."""


@dataclass
class Figures:
    """What the cases so far have sent, pressed and shown."""

    cases: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    presses: Counter[str] = field(default_factory=Counter)
    """The keys by the screen on which they were pressed."""
    resizes: int = 0
    frames: int = 0
    written_bytes: int = 0
    longest_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"cases: {_counts(self.cases)}; {sum(self.sent.values())} messages ({_counts(self.sent)}); "
            f"{sum(self.presses.values())} keys ({_counts(self.presses)}); {self.resizes} resizes; "
            f"{self.frames} frames of {self.written_bytes} bytes, at most {self.longest_bytes}"
        )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


@contextmanager
def no_thread_may_fail() -> Iterator[None]:
    """Raise what a thread raised, at the end: the real application ends with it."""
    failures: list[threading.ExceptHookArgs] = []
    before, threading.excepthook = threading.excepthook, failures.append
    try:
        yield
    finally:
        threading.excepthook = before
    for failure in failures:
        assert failure.exc_value is not None
        raise failure.exc_value


def random_size(random: Random) -> tuple[int, int]:
    """Columns and lines of a terminal."""
    return random.randint(*COLUMNS), random.randint(*LINES)


class Presser:
    """Presses random keys, and checks that keys are served."""

    def __init__(self, app: GputuiApp, running: Running, random: Random, figures: Figures) -> None:
        self._app, self._running, self._random, self._figures = app, running, random, figures
        is_replay = app.attached.is_replay
        self._keys = [key for key in KEYS if not is_replay or key not in LEAVING]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition, or until the application has failed, which the end of `run_test` then raises."""
        await self._running.until(lambda: self._app._exception is not None or condition())

    async def press_at_random(self) -> None:
        """Press `PRESSES` keys, with a resize before some of them."""
        for _ in range(PRESSES):
            screen = self._app.screen
            self._figures.presses[getattr(screen, "NAME", "") or type(screen).__name__.lower()] += 1
            if self._random.random() < 0.1:
                self._figures.resizes += 1
                await self._running.resize(*random_size(self._random))
            await self._running.pilot.press(self._random.choice(self._keys))
            if not isinstance(self._app.screen, AttachScreen) and self._random.random() < 0.3:
                await self.come_back()

    async def open_every_screen(self) -> None:
        """Go to each attach screen by its key; raises unless every key is served."""
        is_still = self._app.attached.is_still
        for key, name in enumerate(ATTACH_SCREENS, start=1):
            if is_still and not ATTACH_SCREENS[name].is_for_files:
                continue
            await self.come_back()
            await self._running.press(str(key))
            assert getattr(self._app.screen, "NAME", "") == name

    @property
    def _is_something_open(self) -> bool:
        """Whether a question, a menu, the help or a filter takes the keys."""
        screen = self._app.screen
        return screen.is_modal or isinstance(screen, HelpScreen) or isinstance(screen.focused, Input)

    async def come_back(self) -> None:
        """Leave what is open, go to an attach screen, and open and close the help there."""
        while self._is_something_open:
            await self._running.press("escape")
        if not isinstance(self._app.screen, AttachScreen):
            self._app.attached.attach(self._app.attached.first_pids[0])
            await self._running.settle()
        await self._running.press("question_mark")
        assert isinstance(self._app.screen, HelpScreen)
        await self._running.press("escape")
        assert isinstance(self._app.screen, AttachScreen)


def check_output(output: str) -> None:
    """Raise unless what was written to the terminal is the pen's sequences and printable text."""
    rest = OURS.sub("", output)
    assert rest.isprintable(), f"reached the terminal: {_around_unprintable(rest)!r}"
    assert [sequence for sequence in OBEYED if sequence in output] == []


def _around_unprintable(text: str) -> str:
    place = next(index for index, character in enumerate(text) if not character.isprintable())
    return text[max(0, place - 20) : place + 20]
