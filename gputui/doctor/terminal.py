"""The doctor's check of the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.doctor.diagnosis import Diagnosis, Grade, fine
from gputui.doctor.here import Here
from gputui.terminals import CANNOT_SHOW, is_utf8

_MANY_COLORS = ("truecolor", "24bit")


def check_terminal(here: Here) -> Iterator[Diagnosis]:
    """Type, size, colours and characters of the terminal."""
    if here.terminal.size is None:
        yield fine("terminal", "standard output is not a terminal; run the doctor in a terminal to check it")
        return
    kind = here.environment.get("TERM", "")
    columns, lines = here.terminal.size
    if kind in CANNOT_SHOW:
        text = f"TERM is {kind!r}, which cannot show a full-screen program."
        yield Diagnosis("terminal", Grade.BROKEN, text, "Set TERM to your terminal's type, such as xterm-256color.")
    elif not columns or not lines:
        yield Diagnosis("terminal", Grade.LIMITED, f"{kind} does not report its size.", "stty rows 24 cols 80")
    elif columns < 80 or lines < 24:
        yield Diagnosis(
            "terminal",
            Grade.LIMITED,
            f"{kind}, {columns}x{lines}",
            "Enlarge it to at least 80x24: the screens leave out parts below that.",
        )
    else:
        yield fine("terminal", f"{kind}, {columns}x{lines}")
    yield _colors(here, kind)
    if not is_utf8(here.terminal.encoding):
        text = f"{here.terminal.encoding or 'unknown'}: lines and graphs are drawn as question marks."
        yield Diagnosis("characters", Grade.LIMITED, text, "export LC_ALL=C.UTF-8, or gputui --ascii")
    else:
        yield fine("characters", "UTF-8")


def _colors(here: Here, kind: str) -> Diagnosis:
    if here.environment.get("NO_COLOR"):
        return fine("colors", "none (NO_COLOR is set)")
    if here.environment.get("COLORTERM", "").lower() in _MANY_COLORS:
        return fine("colors", "truecolor")
    if "256" in kind:
        return fine("colors", "256 (if the terminal has more: export COLORTERM=truecolor, which ssh does not forward)")
    return Diagnosis("colors", Grade.LIMITED, "16", "If the terminal has more: export TERM=xterm-256color")
