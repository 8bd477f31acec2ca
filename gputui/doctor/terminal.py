"""The doctor's look at the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.doctor.diagnosis import Diagnosis, Grade, fine
from gputui.doctor.here import Here
from gputui.terminals import CANNOT_SHOW, is_utf8

_MANY_COLORS = ("truecolor", "24bit")


def check_terminal(here: Here) -> Iterator[Diagnosis]:
    """Kind, size, colours and characters of the terminal that standard output is."""
    if here.terminal.size is None:
        yield fine("terminal", "standard output is no terminal; run the doctor in one to have it checked")
        return
    kind = here.environment.get("TERM", "")
    columns, lines = here.terminal.size
    if kind in CANNOT_SHOW:
        text = f"TERM is {kind!r}: a full-screen program cannot be shown."
        yield Diagnosis("terminal", Grade.BROKEN, text, "Set TERM to what the terminal is, such as xterm-256color.")
    elif not columns or not lines:
        yield Diagnosis("terminal", Grade.LIMITED, f"{kind} does not tell its size.", "stty rows 24 cols 80")
    elif columns < 80 or lines < 24:
        yield Diagnosis(
            "terminal", Grade.LIMITED, f"{kind}, {columns}x{lines}", "From 80x24 on everything has its place."
        )
    else:
        yield fine("terminal", f"{kind}, {columns}x{lines}")
    yield _colors(here, kind)
    if not is_utf8(here.terminal.encoding):
        text = f"{here.terminal.encoding or 'unknown'}: lines and graphs come out as question marks."
        yield Diagnosis("characters", Grade.LIMITED, text, "export LC_ALL=C.UTF-8, or gputui --ascii")
    else:
        yield fine("characters", "UTF-8")


def _colors(here: Here, kind: str) -> Diagnosis:
    if here.environment.get("NO_COLOR"):
        return fine("colors", "none (NO_COLOR is set)")
    if here.environment.get("COLORTERM", "").lower() in _MANY_COLORS:
        return fine("colors", "truecolor")
    if "256" in kind:
        return fine("colors", "256 (COLORTERM=truecolor tells of more; ssh does not forward it)")
    return Diagnosis("colors", Grade.LIMITED, "16", "Where the terminal has more: export TERM=xterm-256color")
