"""The terminal, left as it was found: Textual's driver for Linux with the manners it lacks.

Textual 8.2 draws on standard error; dies of SIGTERM and SIGHUP with the terminal in its hands; dies of a key that is
no UTF-8; turns in circles when the terminal goes away; answers SIGCONT with locks in its hands, in the middle of
whatever it does; and after SIGSTOP and SIGCONT takes its own settings of the terminal for those it found.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from gputui.terminals import ENDINGS, LAST_WORDS_S

if TYPE_CHECKING:
    from typing_extensions import Buffer

HUNG_UP = 128 + signal.SIGHUP

ESCAPE_S = 0.1
"""So often it is looked whether a lone escape character was the beginning of a key."""


class Terminal(LinuxDriver):
    """Draws on standard output, and ends the application when a signal or the end of the terminal says so."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        output = sys.__stdout__
        if output is None:
            raise OSError("standard output is closed")
        self._was_continued = False
        self._end_of_keys, self._no_more_keys = os.pipe()
        self._line = Line(output.fileno(), self._hang_up)
        self._size = size or self._get_terminal_size()
        buffered = io.TextIOWrapper(
            cast(BinaryIO, self._line), output.encoding, "replace", newline="", write_through=True
        )
        self._file = buffered
        for number in ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's wish is respected
                self._loop.add_signal_handler(number, self._end, 128 + number)
        # Between two steps of the loop: in the middle of one the queue's lock may be held that these need to write.
        self._loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._note_continued)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Columns and lines as the terminal tells them; COLUMNS and LINES may be those of another one."""
        try:
            columns, lines = os.get_terminal_size(self._line.fileno())
        except OSError:  # the terminal has gone, which is noticed when it is next written to
            columns, lines = 0, 0
        return columns or 80, lines or 24

    @property
    def terminal_size(self) -> tuple[int, int]:
        """Columns and lines, as the terminal tells them now."""
        return self._get_terminal_size()

    @property
    def is_behind(self) -> bool:
        """The terminal has not yet taken what was written before: whoever draws frames waits."""
        return self._line.is_busy or (self._writer_thread is not None and not self._writer_thread._queue.empty())

    @property
    def has_shell(self) -> bool:
        """A shell gave this job a process group of its own, and can continue it."""
        return os.getpgrp() != os.getsid(0)

    def write(self, data: str) -> None:
        """Hand `data` to the writing thread; it is dropped where the terminal is not ours, as in the background."""
        if self._writer_thread is not None:
            super().write(data)

    def _end(self, status: int) -> None:
        self._app.exit(return_code=status)

    def _hang_up(self) -> None:
        self._loop.call_soon_threadsafe(self._end, HUNG_UP)

    def _run_input_thread(self) -> None:
        self.run_input_thread()  # Textual turns an error into a picture and the exit status 0

    def run_input_thread(self) -> None:
        """Turn bytes into keys until the end of input, which is the end of the terminal."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            # Only the rest of a key that has begun is waited for by the clock: a monitor nobody types to sleeps.
            patience_s = None if parser._timeout_time is None else ESCAPE_S
            if self.fileno in select.select([self.fileno, self._end_of_keys], [], [], patience_s)[0]:
                typed = self._read()
                if not typed:
                    self._hang_up()
                    return
                for event in parser.feed(decode(typed)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 4096)
        except OSError:  # EIO: the other side is closed
            return b""

    def disable_input(self) -> None:
        """Read no more keys. Once: what is typed after the terminal was given back is the shell's."""
        if self._key_thread is not None:
            os.write(self._no_more_keys, b"\0")
            super().disable_input()
            self._key_thread = None
            os.read(self._end_of_keys, 1)

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
            self._mouse_pixels = False
        super().stop_application_mode()

    def close(self) -> None:
        """Wait until the terminal has taken the last bytes, but not for ever."""
        writer, self._writer_thread = self._writer_thread, None
        if writer is not None:
            writer._queue.put(None)
            writer.join(LAST_WORDS_S)

    def _sigtstp_application(self, *_: object) -> None:
        self.suspend_application_mode()
        self._must_signal_resume = True
        if self.has_shell:
            os.killpg(0, signal.SIGSTOP)  # all programs of the job: `uv run gputui` is two
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def start_application_mode(self) -> None:
        """Take the terminal, once it is this job's."""
        self._wait_for_foreground()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None:
            self._writer_thread._queue.maxsize = 0  # never blocks the event loop: see `is_behind` for what bounds it
        elif not os.isatty(self.fileno):  # it went in between, and no thread is there to notice
            self._hang_up()

    def _wait_for_foreground(self) -> None:
        """In the background the kernel stops this job here; Textual would do so itself, and may come after `fg`."""
        while True:
            try:
                termios.tcsetattr(self.fileno, termios.TCSANOW, termios.tcgetattr(self.fileno))
            except termios.error as error:
                if error.args[0] == errno.EINTR:  # continued, by `fg` or by `bg` once more
                    continue
                # EIO: the terminal has gone, which the thread that reads keys will notice
            break
        self._was_continued = False

    def _note_continued(self, *_: object) -> None:
        self._was_continued = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Take the terminal, unless that was done or is over: `bg` and then `fg` send two signals."""
        if not self._was_continued or self._app._exit:
            return
        self._was_continued = False
        if not self._must_signal_resume:  # SIGSTOP came without a warning: what was set before is still known
            self.suspend_application_mode()
            self._must_signal_resume = True
        self._sigcont_application()


class Line(io.RawIOBase):
    """The way to the terminal; where the terminal has gone, it says so and drops what is written."""

    def __init__(self, fileno: int, on_gone: Callable[[], None]) -> None:
        self._fileno = fileno
        self._on_gone = on_gone
        self.is_busy = False

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._fileno

    def write(self, data: Buffer) -> int:
        """All of `data`, however long it takes."""
        rest = memoryview(data)
        size = len(rest)
        self.is_busy = True
        try:
            while rest:
                select.select([], [self._fileno], [])  # another program may have made this terminal non-blocking
                rest = rest[os.write(self._fileno, rest) :]
        except OSError:
            self._on_gone()
        finally:
            self.is_busy = False
        return size
