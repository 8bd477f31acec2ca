"""The bar in the terminal while a large file is read or a long calculation runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

from gputui.units import format_bytes

SHOWN_AFTER_S = 0.5
INTERVAL_S = 0.1
CELLS = 30


def _draw(words: str, share: float) -> None:
    """Draw a bar on standard error, where that is a terminal."""
    if _is_shown():
        bar = ("=" * int(share * CELLS)).ljust(CELLS)
        _write(f"\r{words} [{bar}] {share:4.0%}  Ctrl-C stops \x1b[K")


def _erase() -> None:
    """Erase the bar."""
    if _is_shown():
        _write("\r\x1b[K")


def _is_shown() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class WorkProgress:
    """Draws on standard error, if that is a terminal, the share of some work that is done; erased at the end."""

    def __init__(self, words: str, shown_after_s: float = 0.0) -> None:
        self._words = words
        self._next = time.monotonic() + shown_after_s
        self._is_drawn = False

    def __enter__(self) -> WorkProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_drawn:
            _erase()

    def __call__(self, share: float) -> None:
        """Draw the bar, at most every `INTERVAL_S`."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL_S
            self._is_drawn = True  # first, so that Ctrl-C during the drawing does not leave the bar behind
            _draw(self._words, share)


class ReadingProgress:
    """Draws on standard error, if that is a terminal, how much of a file is read; erased at the end."""

    def __init__(self, path: Path) -> None:
        self._size_bytes = path.stat().st_size if path.is_file() else 0
        self._work = WorkProgress(f"Reading {format_bytes(self._size_bytes)}", SHOWN_AFTER_S)

    def __enter__(self) -> ReadingProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._work.__exit__(kind, error, at)

    def __call__(self, read_bytes: int) -> None:
        """Draw the bar, at most every `INTERVAL_S`."""
        if self._size_bytes:
            self._work(min(1.0, read_bytes / self._size_bytes))
