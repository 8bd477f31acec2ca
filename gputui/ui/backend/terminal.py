"""Textual's driver for Linux, corrected so that the terminal is always restored.

Textual 8.2 draws on standard error. SIGTERM and SIGHUP kill it before it restores the terminal; so does typed input
that is not UTF-8. It spins when the terminal goes away. It answers SIGCONT in a signal handler, which may interrupt a
thread that holds a lock it needs. After SIGSTOP and SIGCONT it takes its own terminal settings for the original ones.
"""

from __future__ import annotations

import asyncio
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

HANGUP_STATUS = 128 + signal.SIGHUP

ESCAPE_S = 0.1
"""Seconds between checks whether a lone escape character was the Escape key or the start of a longer sequence."""


class Terminal(LinuxDriver):
    """Draws on standard output; a signal, or a closed terminal, ends the application cleanly."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        output = sys.__stdout__
        if output is None:
            raise OSError("standard output is closed")
        self._owner = app
        self._event_loop = asyncio.get_running_loop()
        self._was_continued = False
        self._wake_reader_fd, self._wake_writer_fd = os.pipe()
        self._output = Output(output.fileno(), self._hang_up)
        self._size = size or self._get_terminal_size()
        self._file = io.TextIOWrapper(
            cast(BinaryIO, self._output), output.encoding, "replace", newline="", write_through=True
        )
        for number in ENDINGS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
                self._event_loop.add_signal_handler(number, self._end, 128 + number)
        # Run by the event loop: a plain signal handler may interrupt a write, whose lock these need.
        self._event_loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._note_continued)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Columns and lines from the terminal itself: COLUMNS and LINES may be those of another one."""
        try:
            columns, lines = os.get_terminal_size(self._output.fileno())
        except OSError:  # the terminal has gone; the next write ends the application
            columns, lines = 0, 0
        return columns or 80, lines or 24

    @property
    def terminal_size(self) -> tuple[int, int]:
        """Columns and lines, asked of the terminal now."""
        return self._get_terminal_size()

    @property
    def is_behind(self) -> bool:
        """Whether the terminal has not yet taken what was written before: a new frame should wait."""
        return self._output.is_busy or (self._writer_thread is not None and not self._writer_thread._queue.empty())

    @property
    def has_shell(self) -> bool:
        """Whether a shell started this job in a process group of its own, so that it can be continued."""
        return os.getpgrp() != os.getsid(0)

    def write(self, data: str) -> None:
        """Queue `data` for the writing thread; drop it while the terminal is not ours, as in the background."""
        if self._writer_thread is not None:
            super().write(data)

    def _end(self, status: int) -> None:
        self._owner.exit(return_code=status)

    def _hang_up(self) -> None:
        self._event_loop.call_soon_threadsafe(self._end, HANGUP_STATUS)

    def _run_input_thread(self) -> None:
        self.run_input_thread()

    def run_input_thread(self) -> None:
        """Turn input into events until the terminal goes away or `disable_input` is called."""
        parser = XTermParser()
        decode = getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            # A timeout only while an escape sequence is incomplete: otherwise an idle monitor would keep waking up.
            timeout_s = None if parser._timeout_time is None else ESCAPE_S
            if self.fileno in select.select([self.fileno, self._wake_reader_fd], [], [], timeout_s)[0]:
                data = self._read()
                if not data:
                    self._hang_up()
                    return
                for event in parser.feed(decode(data)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 4096)
        except OSError:  # EIO: the other side is closed
            return b""

    def disable_input(self) -> None:
        """Stop reading keys. Only once: what is typed after the terminal is restored is for the shell."""
        if self._key_thread is not None:
            os.write(self._wake_writer_fd, b"\0")
            super().disable_input()
            self._key_thread = None
            os.read(self._wake_reader_fd, 1)

    def stop_application_mode(self) -> None:
        """Restore the terminal."""
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
            self._mouse_pixels = False
        super().stop_application_mode()

    def close(self) -> None:
        """Wait until the terminal has taken the last bytes, at most `LAST_WORDS_S` seconds."""
        writer, self._writer_thread = self._writer_thread, None
        if writer is not None and writer.is_alive():  # it may never have started
            writer._queue.put(None)
            writer.join(LAST_WORDS_S)

    def _sigtstp_application(self, *_: object) -> None:
        self.suspend_application_mode()
        self._must_signal_resume = True
        if self.has_shell:
            os.killpg(0, signal.SIGSTOP)  # every program of the job: `uv run gputui` is two
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def start_application_mode(self) -> None:
        """Take the terminal, as soon as this job is in the foreground."""
        self._wait_for_foreground()
        try:
            super().start_application_mode()  # type: ignore[no-untyped-call]
        except RuntimeError:  # the system refused the thread that reads keys, when the terminal was changed already
            self._key_thread = None
            self._disable_mouse_support()
            self.stop_application_mode()
            raise
        if self._writer_thread is not None:
            self._writer_thread._queue.maxsize = 0  # never blocks the event loop: `is_behind` bounds the queue
        elif not os.isatty(self.fileno):  # the terminal went away before the input thread could start and notice
            self._hang_up()

    def _wait_for_foreground(self) -> None:
        """Let the kernel stop a background job here: Textual stops itself, and may do so after `fg`."""
        while True:
            try:
                termios.tcsetattr(self.fileno, termios.TCSANOW, termios.tcgetattr(self.fileno))
            except termios.error as error:
                if error.args[0] == errno.EINTR:  # continued, by `fg` or by another `bg`
                    continue
                # EIO: the terminal has gone, and the input thread will notice
            break
        self._was_continued = False

    def _note_continued(self, *_: object) -> None:
        self._was_continued = True
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Take the terminal again, once for two signals (`bg`, then `fg`), and not while the application ends."""
        if not self._was_continued or self._owner._exit:
            return
        self._was_continued = False
        if not self._must_signal_resume:  # after SIGSTOP the terminal was never restored: do that first
            self.suspend_application_mode()
            self._must_signal_resume = True
        self._sigcont_application()


class Output(io.RawIOBase):
    """Writes to the terminal; once the terminal has gone, calls `on_gone` and drops what is written."""

    def __init__(self, fileno: int, on_gone: Callable[[], None]) -> None:
        self._fileno = fileno
        self._on_gone = on_gone
        self.is_busy = False

    def writable(self) -> bool:
        """Always True, for `io.TextIOWrapper`."""
        return True

    def fileno(self) -> int:
        """The terminal's file descriptor."""
        return self._fileno

    def write(self, data: Buffer) -> int:
        """Write all of `data`, however long the terminal takes; returns its length in bytes."""
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
