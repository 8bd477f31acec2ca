"""The base of the application: sends the terminal few bytes, and always restores it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, RenderableType
from rich.segment import Segment
from textual import events
from textual._compositor import CompositorUpdate
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.color import Color
from textual.filter import LineFilter, NoColor
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer

from gputui.ui.backend.screen_diff import ScreenDiff
from gputui.ui.backend.terminal import Terminal
from gputui.ui.backend.typed_ahead import TypedAhead
from gputui.ui.drawing.ascii import as_ascii

ATOMIC_BYTES = 1200
"""A longer frame, which SSH delivers in several packets, is sent as one synchronized update: no half of it is shown."""

SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"

SETTLED_S = 0.1
"""Seconds after a resize until the size is checked again: a screen that does not change draws no frame to check it."""

RETRY_S = 0.03
"""Seconds until a frame that the terminal was too slow for is tried again."""

WHOLE_COLLECTIONS_EACH = 50
"""How many collections of younger objects come before one of all objects, for which a key waits: with the rows of
16,000 GPUs, 100 ms."""

SCREENS_COLLECTED = 4
"""After this many screens were left, their objects are collected: each screen has some thousand, which refer to each
other, and a key would wait 200 ms while those of thirty screens are collected."""

S = TypeVar("S")


def spare_collections() -> None:
    """Exempt what exists now, such as modules, from garbage collection, and seldom go over all other objects."""
    gc.freeze()
    youngest, younger, _ = gc.get_threshold()
    gc.set_threshold(youngest, younger, WHOLE_COLLECTIONS_EACH)


class TerminalApp(TypedAhead):
    """Sends only the cells of a frame that differ; frames never queue up behind a slow line."""

    def __init__(self, *, is_ascii: bool) -> None:
        """With `is_ascii` only ASCII reaches the terminal."""
        super().__init__(driver_class=Terminal)
        self._is_ascii = is_ascii
        self._screen_diff: ScreenDiff | None = None
        self._retry: Timer | None = None
        self._screens_left = 0

    def run_to_end(self, *, mouse: bool) -> int:
        """Run and return the exit status. An unexpected error is raised once the terminal is restored.

        A thread that dies ends the program, because the screen would show old numbers for ever.
        """
        threading.excepthook = self._thread_died
        spare_collections()
        self.run(mouse=mouse)
        if self._exception is not None:
            raise self._exception
        return self.return_code or 0

    def _thread_died(self, death: threading.ExceptHookArgs) -> None:
        def fail() -> None:
            if death.exc_value is not None:
                raise death.exc_value

        self.call_later(fail)

    def _fatal_error(self) -> None:
        """End; `run_to_end` raises. Textual's own report shows the values of variables, which may be secrets."""
        self._close_messages_no_wait()

    def switch_screen(self, screen: Screen[Any] | str) -> AwaitComplete:
        """Show another screen in place of the one on top."""
        self._collect_left()
        return super().switch_screen(screen)

    def pop_screen(self) -> AwaitComplete:
        """Leave the screen on top."""
        self._collect_left()
        return super().pop_screen()

    def _collect_left(self) -> None:
        """Count a screen that was left; with every `SCREENS_COLLECTED`th, collect garbage after the next refresh."""
        self._screens_left += 1
        if self._screens_left == SCREENS_COLLECTED:
            self._screens_left = 0
            self.call_after_refresh(gc.collect)

    def on_top(self, kind: type[S]) -> S | None:
        """The screen on top if it is of that kind; None while the application closes, when messages may still come."""
        screen: object = self.screen if self.is_running else None
        return screen if isinstance(screen, kind) else None

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters; without colours only one that keeps attributes, and with --ascii one for ASCII."""
        # Textual's own filter for NO_COLOR paints black on black where the terminal's default colours are used.
        filters = [NoColor()] if self.no_color else super().get_line_filters()
        return [*filters, *([AsciiFilter()] if self._is_ascii else [])]

    def get_key_display(self, binding: Binding) -> str:
        """Textual's sign for a key; with --ascii the key's name where that sign is not ASCII."""
        shown = super().get_key_display(binding)
        return shown if shown.isascii() or not self._is_ascii else binding.key

    def forget_screen(self) -> None:
        """Assume nothing about what the terminal shows: the next frame sends every cell."""
        if self._screen_diff:
            self._screen_diff.forget()

    def action_repaint(self) -> None:
        """Send every cell again, for a terminal that another program wrote to."""
        self.forget_screen()
        self.screen.refresh()

    def on_resize(self) -> None:
        """Send every cell again: what a terminal shows after a resize is unknown, even at the same size as before."""
        if self._screen_diff is not None:
            self.action_repaint()
            self.set_timer(SETTLED_S, self._follow_terminal)

    def action_suspend_process(self) -> None:
        """Suspend to the shell; refused where no shell could resume the program."""
        if isinstance(self._driver, Terminal) and not self._driver.has_shell:
            self.notify("There is no shell to suspend to: gputui was started without one. q quits.", markup=False)
        else:
            super().action_suspend_process()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only the cells that differ; anything but a frame is left to Textual."""
        is_shown = self.is_running and not self._closed and not self.is_headless and not self._batch_count
        update: object = renderable
        if not isinstance(update, CompositorUpdate) or not is_shown:
            super()._display(screen, renderable)
            return
        if self._screen_diff is None:
            self._screen_diff = ScreenDiff(self._color_system())
        self._follow_terminal()
        width, height = self.size
        if not self._screen_diff.take(update, width, height):
            super()._display(screen, renderable)
            return
        self._send_frame()
        self.post_display_hook()

    def _color_system(self) -> ColorSystem | None:
        if self.no_color:
            return None
        name = self.console.color_system
        return COLOR_SYSTEMS[name] if name else ColorSystem.TRUECOLOR

    def _follow_terminal(self) -> None:
        """Ask the terminal for its size: when many resizes come in a row, the last can be overtaken."""
        if isinstance(self._driver, Terminal):
            size = Size(*self._driver.terminal_size)
            if size != self.size:
                self.post_message(events.Resize(size, size))

    def _send_frame(self) -> None:
        """Send what differs; while the terminal is behind, retry later with everything that has changed by then."""
        if self._screen_diff is None or self._driver is None:
            return
        if isinstance(self._driver, Terminal) and self._driver.is_behind:
            if self._retry is None:
                self._retry = self.set_timer(RETRY_S, self._retry_frame)
            return
        difference = self._screen_diff.difference()
        if len(difference) > ATOMIC_BYTES and self._sync_available:
            difference = f"{SYNC_START}{difference}{SYNC_END}"
        if difference:
            self._driver.write(difference)

    def _retry_frame(self) -> None:
        self._retry = None
        self._send_frame()


class AsciiFilter(LineFilter):
    """Turns everything that is drawn, borders and notices of Textual's own included, into ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual passes it
        """The same segments in ASCII."""
        return [Segment(as_ascii(text), style, control) for text, style, control in segments]
