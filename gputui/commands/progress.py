"""The bar in the terminal while a large file is read or a long calculation runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gputui.units import format_bytes

SHOWN_AFTER_S = 0.5
INTERVAL_S = 0.1
CELLS = 30


@contextmanager
def progress(words: str, whole: float = 1.0, shown_after_s: float = 0.0) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with how much of `whole` is done.

    It draws a bar on standard error, if that is a terminal, at most every `INTERVAL_S`. The bar is erased at the end.
    """
    next_at = time.monotonic() + shown_after_s
    is_drawn = False

    def show(done: float) -> None:
        nonlocal next_at, is_drawn
        now = time.monotonic()
        if whole and now >= next_at:
            next_at = now + INTERVAL_S
            is_drawn = True  # first, so that Ctrl-C during the drawing does not leave the bar behind
            share = min(1.0, done / whole)
            _write(f"{words} [{'=' * int(share * CELLS):<{CELLS}}] {share:4.0%}  Ctrl-C stops ")

    try:
        yield show
    finally:
        if is_drawn:
            _write("")


def reading(path: Path) -> AbstractContextManager[Callable[[float], None]]:
    """The progress of reading a file; call the function with how many bytes have been read."""
    size_bytes = path.stat().st_size if path.is_file() else 0
    return progress(f"Reading {format_bytes(size_bytes)}", size_bytes, SHOWN_AFTER_S)


def _write(line: str) -> None:
    """Replace the terminal's current line, if standard error is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
