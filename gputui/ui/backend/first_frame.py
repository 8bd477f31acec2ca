"""The first frame, drawn before Textual is imported, because that import takes longer than reading the machine."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from gputui.model.machine.snapshot import Snapshot
from gputui.settings import Settings
from gputui.terminals import ENDINGS, LAST_WORDS_S
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.ascii import as_ascii
from gputui.ui.drawing.line import as_text, printable
from gputui.ui.drawing.monitor.overview import draw_overview
from gputui.ui.drawing.monitor.process_rows import View

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[H", "\x1b[?25h\x1b[?1049l"


@contextmanager
def show_first_frame(snapshot: Snapshot, settings: Settings, appearance: Appearance) -> Iterator[None]:
    """Show `snapshot` on the alternate screen until the body, which runs the application, takes the screen over.

    If the body fails, or a signal arrives before the application handles signals, the screen is restored.
    """
    stream = sys.__stdout__
    if stream is None or not stream.isatty():
        yield
        return
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
            signal.signal(number, _end)
    size = os.get_terminal_size(stream.fileno())
    view = View(settings.sort, settings.reverse)
    lines = draw_overview(snapshot, view, settings.columns, appearance, *size)
    clean = as_ascii if appearance.is_ascii else str
    lines = [tuple((clean(printable(text)), role) for text, role in line) for line in lines]
    is_colored = settings.theme == "terminal" and settings.color != "none"
    text = "\r\n".join(as_text(line, is_colored=is_colored) for line in lines)
    try:
        _write(stream, ENTER + text)
        yield
    except BaseException:  # Ctrl-C and the exit of a signal too: the terminal is restored, and the exception goes on
        with suppress(OSError):  # the terminal may have gone
            if select.select([], [stream], [], LAST_WORDS_S)[1]:
                _write(stream, LEAVE)
        raise


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
    stream.flush()
