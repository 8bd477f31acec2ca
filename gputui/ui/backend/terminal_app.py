"""An application that sends a terminal few bytes, and ends in every case with the terminal as it was found."""

from __future__ import annotations

import threading
from typing import TypeVar

from rich.color import ColorSystem
from rich.console import RenderableType
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.filter import Monochrome
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer

from gputui.ui.backend.screen_diff import Frames
from gputui.ui.backend.terminal import Terminal

ATOMIC_BYTES = 1200
"""A frame of more bytes, which an SSH line brings in parts, is sent as one update: no half of it is ever shown."""

SETTLED_S = 0.1
"""So long after a resize the terminal is asked once more, for a screen that is too small to change draws no frames."""

LATE_S = 0.03
"""So soon a frame that the terminal was too slow for is tried again."""

S = TypeVar("S")


class TerminalApp(App[int]):
    """Frames become differences; what is written never queues up behind a slow line."""

    def __init__(self) -> None:
        super().__init__(driver_class=Terminal)
        # Textual's own way without colours paints black on black what has the terminal's default colours.
        self._filters = [line_filter for line_filter in self._filters if not isinstance(line_filter, Monochrome)]
        self._frames: Frames | None = None
        self._late_frame: Timer | None = None

    def run_to_end(self, *, mouse: bool) -> int:
        """Run; the exit status. An error that nobody expected is raised when the terminal is as it was.

        A thread that dies takes the program with it, for the screen would show old numbers for ever.
        """
        threading.excepthook = self._thread_died
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

    def on_top(self, kind: type[S]) -> S | None:
        """The screen on top, if it is of that kind; none while the application closes, when messages may still come."""
        screen: object = self.screen if self.is_running else None
        return screen if isinstance(screen, kind) else None

    def forget_frames(self) -> None:
        """Assume nothing about what the terminal shows: the next frame sends every cell."""
        if self._frames:
            self._frames.forget()

    def action_repaint(self) -> None:
        """Send every cell again, for a terminal that was written over."""
        self.forget_frames()
        self.screen.refresh()

    def on_resize(self) -> None:
        """After a resize nobody knows what the terminal shows, be the size again what it was."""
        if self._frames is not None:
            self.action_repaint()
            self.set_timer(SETTLED_S, self._follow_terminal)

    def action_suspend_process(self) -> None:
        """Suspend to the shell; where there is none nobody could ever resume."""
        if isinstance(self._driver, Terminal) and not self._driver.has_shell:
            self.notify("There is no shell to suspend to: gputui is all that runs in this terminal.", markup=False)
        else:
            super().action_suspend_process()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only the cells that differ; whatever is not a frame goes Textual's own way."""
        is_shown = self._running and not self._closed and not self.is_headless and not self._batch_count
        update: object = renderable
        if not isinstance(update, CompositorUpdate) or not is_shown:
            super()._display(screen, renderable)
            return
        if self._frames is None:
            colors = None if self.no_color else self.console._color_system or ColorSystem.TRUECOLOR
            self._frames = Frames(colors)
        self._follow_terminal()
        width, height = self.size
        if not self._frames.take(update, width, height):
            super()._display(screen, renderable)
            return
        self._send_frame()
        self.post_display_hook()

    def _follow_terminal(self) -> None:
        """Among many resizes in a row the last can be overtaken: what the terminal says at each frame counts."""
        if isinstance(self._driver, Terminal):
            size = Size(*self._driver.terminal_size)
            if size != self.size:
                self.post_message(events.Resize(size, size))

    def _send_frame(self) -> None:
        """Send what differs; while the terminal is behind, later, in one difference with what comes until then."""
        if self._frames is None or self._driver is None:
            return
        if isinstance(self._driver, Terminal) and self._driver.is_behind:
            if self._late_frame is None:
                self._late_frame = self.set_timer(LATE_S, self._send_late_frame)
            return
        difference = self._frames.difference()
        if len(difference) > ATOMIC_BYTES and self._sync_available:
            difference = f"{SYNC_START}{difference}{SYNC_END}"
        if difference:
            self._driver.write(difference)

    def _send_late_frame(self) -> None:
        self._late_frame = None
        self._send_frame()
