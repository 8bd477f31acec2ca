"""What can be set, with what holds where nothing is. The names, forms and checks are in `table.py`."""

from __future__ import annotations

from typing import NamedTuple

from gputui.settings.keys import KeyChange

THEMES = (
    "terminal", "textual-dark", "textual-light", "nord", "gruvbox", "catppuccin-mocha", "catppuccin-macchiato",
    "catppuccin-frappe", "catppuccin-latte", "dracula", "tokyo-night", "monokai", "flexoki", "solarized-dark",
    "solarized-light", "rose-pine", "rose-pine-moon", "rose-pine-dawn", "atom-one-dark", "atom-one-light",
    "ansi-dark", "ansi-light",
)  # fmt: skip
COLORS = ("auto", "none", "16", "256", "truecolor")
GRAPHS = ("utilization", "memory", "power", "temperature")
SORTS = ("device", "memory", "sm", "pid", "user", "cpu", "rss", "time", "command")
PROCESS_COLUMNS = (
    "device", "pid", "user", "type", "memory", "share", "sm", "cpu", "rss", "workers", "time", "rank", "command",
)  # fmt: skip


class Settings(NamedTuple):
    """Everything the user chose, checked; one object for the life of the program."""

    interval_s: float = 1.0
    """Seconds from one look to the next, 0.1 to 3600."""

    theme: str = "terminal"
    """The colours, one of `THEMES`."""

    color: str = "auto"
    """How many colours the terminal is given, one of `COLORS`; "auto" asks the terminal, NO_COLOR means "none"."""

    ascii: bool = False
    """Draw meters, graphs and lines with ASCII characters alone."""

    mouse: bool = True
    """React to the mouse; without it the terminal's own selection works."""

    readonly: bool = False
    """Leave out everything that acts on a process: signals, `empty_cache()`."""

    graph: str = "utilization"
    """What the history graphs of the overview show, one of `GRAPHS`."""

    sort: str = "device"
    """What orders the process list, one of `SORTS`."""

    reverse: bool = False
    """The order of the process list turned round."""

    columns: tuple[str, ...] = PROCESS_COLUMNS
    """The columns of the process list, from left to right; the narrower the terminal, the fewer of them fit."""

    warm_percent: int = 50
    """From here on a share (utilisation, memory, processor) has the colour of a busy one."""

    hot_percent: int = 90
    """From here on a share has the colour of a full one."""

    warm_c: int = 70
    """From here on a temperature has the colour of a warm device, in degrees Celsius."""

    hot_c: int = 85
    """From here on a temperature has the colour of a hot device, where the device does not tell its own limit."""

    keys: tuple[KeyChange, ...] = ()
    """Actions with other keys than their own; `keymap` turns them into what the screens take."""


DEFAULTS = Settings()
