"""Each setting, declared once: its name in the file, its form, its environment variable and its flag."""

from __future__ import annotations

from typing import NamedTuple

from gputui import environment
from gputui.settings.forms import Form, choice, choices, pause, seconds, truth, whole
from gputui.settings.settings import COLORS, GRAPHS, PROCESS_COLUMNS, SORTS, THEMES


class Flag(NamedTuple):
    """A command-line flag: one that takes a value (`metavar`), or one that stands for the value `means`."""

    name: str
    help: str
    metavar: str = ""
    means: bool | None = None


class Setting(NamedTuple):
    """`name` is what the file calls it, `field` the attribute of `Settings`."""

    name: str
    field: str
    form: Form
    flag: Flag | None = None

    @property
    def variable(self) -> str:
        """The environment variable."""
        return environment.of_setting(self.name)


SETTINGS = (
    Setting(
        "interval",
        "interval_s",
        seconds,
        Flag("--interval", "time between updates, 0.1 to 3600 seconds: 2, 500ms", "TIME"),
    ),
    Setting(
        "theme", "theme", choice(THEMES), Flag("--theme", "colour theme: nord, gruvbox, textual-light, ...", "NAME")
    ),
    Setting(
        "color", "color", choice(COLORS), Flag("--color", "number of colours: auto, none, 16, 256, truecolor", "DEPTH")
    ),
    Setting("ascii", "ascii", truth, Flag("--ascii", "draw with ASCII characters only", means=True)),
    Setting("mouse", "mouse", truth, Flag("--no-mouse", "leave the mouse to the terminal", means=False)),
    Setting("readonly", "readonly", truth, Flag("--readonly", "disable everything that acts on a process", means=True)),
    Setting(
        "look_pause",
        "look_pause_s",
        pause,
        Flag("--pause", "longest stop of an attached program in an automatic look: 1ms to 100ms, or off", "TIME"),
    ),
    Setting("graph", "graph", choice(GRAPHS)),
    Setting("sort", "sort", choice(SORTS)),
    Setting("reverse", "reverse", truth),
    Setting("columns", "columns", choices(PROCESS_COLUMNS)),
    Setting("warm_percent", "warm_percent", whole(0, 100)),
    Setting("hot_percent", "hot_percent", whole(0, 100)),
    Setting("warm_c", "warm_c", whole(0, 150)),
    Setting("hot_c", "hot_c", whole(0, 150)),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}

VARIABLES = (*environment.OF_NO_SETTING, *(setting.variable for setting in SETTINGS))
"""Every environment variable that gputui or its probe reads under a name of gputui's own."""
