"""An SVG picture of a `Terminal`."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.text import Text

from tests.ui.terminal import Pen, Terminal


def picture(terminal: Terminal) -> str:
    """The terminal as SVG, with the colours it received."""
    console = Console(
        width=terminal.width,
        file=StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for row in terminal.cells:
        line = "".join(f"\x1b[{_codes(pen)}m{character}" for character, pen in row if character)
        console.print(Text.from_ansi(line, no_wrap=True, end=""), overflow="crop", crop=True)
    return console.export_svg(title="gputui")


def _codes(pen: Pen) -> str:
    return ";".join(map(str, (0, *sorted(pen.attributes), *pen.foreground, *pen.background)))
