"""All settings with their defaults; their names, forms and checks are in `table.py`."""

from __future__ import annotations

from typing import NamedTuple

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
    "device", "pid", "user", "job", "type", "memory", "share", "sm", "cpu", "rss", "workers", "time", "rank", "command",
)  # fmt: skip


class KeyChange(NamedTuple):
    """`action` gets `keys` in place of its own; `origin` is the file and line, for an error about it."""

    action: str
    keys: tuple[str, ...]
    origin: str


class Settings(NamedTuple):
    """The user's checked settings; one object for the life of the program."""

    interval_s: float = 1.0
    """Seconds from one look to the next, 0.1 to 3600."""

    theme: str = "terminal"
    """The colours, one of `THEMES`."""

    color: str = "auto"
    """How many colours the terminal is given, one of `COLORS`; "auto" asks the terminal, NO_COLOR means "none"."""

    ascii: bool = False
    """Draw meters, graphs and lines with ASCII characters only."""

    mouse: bool = True
    """React to the mouse; without it the terminal's own selection works."""

    readonly: bool = False
    """Disable everything that acts on a process: signals, `empty_cache()`."""

    look_pause_s: float | None = 0.025
    """How long an automatic look may stop an attached program at a time, 0.001 to 0.1; None: no automatic looks."""

    graph: str = "utilization"
    """What the history graphs of the overview show, one of `GRAPHS`."""

    sort: str = "device"
    """What orders the process list, one of `SORTS`."""

    reverse: bool = False
    """Reverse the order of the process list."""

    columns: tuple[str, ...] = PROCESS_COLUMNS
    """The columns of the process list, from left to right; a narrow terminal drops those on the right.

    `job` is shown where a process is in a job, pod, container or unit."""

    warm_percent: int = 50
    """From this percentage of utilisation, memory or processor time on, a value has the warm colour."""

    hot_percent: int = 90
    """From this percentage on, a value has the hot colour."""

    warm_c: int = 70
    """From this temperature on, in degrees Celsius, a device has the warm colour."""

    hot_c: int = 85
    """From this temperature on, the hot colour; `warm_c` and `hot_c` apply to devices that report no own limit."""

    keys: tuple[KeyChange, ...] = ()
    """Remapped keys, in the form that `keymap` takes."""


DEFAULTS = Settings()
