"""The help screen: every key, by what it is for."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.dom import DOMNode

from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.ui.drawing.process_fields import PROCESS_FIELDS
from gputui.ui.screens.base import SubScreen
from gputui.ui.widgets.page import Page

GROUPS: tuple[tuple[str, str], ...] = (
    ("app.", "Everywhere"),
    ("list.", "Lists and pages"),
    ("processes.", "Processes"),
    ("process.", "One process"),
    ("signal.", "Signals"),
    ("device.", "One device"),
    ("graph.", "Graphs"),
    ("attach.", "An attached process"),
    ("actions.", "Actions in it"),
    ("memory.", "Its memory over time"),
    ("map.", "The map of its segments"),
    ("changes.", "What changed in it"),
    ("tensors.", "Its tensors"),
    ("replay.", "A recording that is played"),
    ("screen.", "Other screens"),
)
"""The first part of a binding's id, and the heading it stands under."""

ACTING = ("signal.", "actions.", "processes.tag")
"""Actions that --readonly takes away: how their names begin."""

NOTES: tuple[str, ...] = (
    (
        "Filter: words are looked for in command, user and PID. Expressions compare fields with == != > >= < <= ~, "
        f"joined by and, or, not: user==ana and mem>10GiB. Fields: {', '.join(PROCESS_FIELDS.by_name)}."
    ),
    "Memory is as NVML reports it, in powers of 1024. A dash is a reading that is not given; Enter shows why.",
    "The keys of this page can be changed in the settings file, under [keys], by the names at the right.",
)


class HelpScreen(SubScreen):
    """All keys with their words; it scrolls."""

    def compose_body(self) -> ComposeResult:
        """One page."""
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        """Keys do not change while one reads about them."""
        self.query_one(Page).redraw()

    def _draw_page(self, width: int, _height: int) -> list[Line]:
        lines: list[Line] = [((fit("Keys", width), "title"),)]
        bindings = {
            binding.id: binding for node in owners(type(self.app)) for binding in bindings_of(node) if binding.id
        }
        for prefix, title in GROUPS:
            members = [binding for name, binding in bindings.items() if name and self._is_of(name, prefix)]
            if members:
                lines += [(), ((title, "title"),), *(self._key_line(binding, width) for binding in members)]
        for note in NOTES:
            lines += [(), *wrap(note, min(width, 100), "dim")]
        return lines

    def _is_of(self, name: str, prefix: str) -> bool:
        """Whether a binding stands in the group of `prefix`; with --readonly those that act stand in none."""
        return name.startswith(prefix) and not (name.startswith(ACTING) and self.monitor.state.is_readonly)

    def _key_line(self, binding: Binding, width: int) -> Line:
        changed = self.monitor.keymap.get(binding.id or "", binding.key)
        keys = " ".join(self.app.get_key_display(Binding(key.strip(), "", "")) for key in changed.split(","))
        words = binding.tooltip or binding.description
        name = f" {binding.id}" if width >= 60 else ""
        room = width - 20 - len(name)
        return join(((fit(f"  {keys}", 20), "key"), (fit(words, room), "plain"), (name, "dim")))


def owners(app: type[DOMNode]) -> Iterable[type[DOMNode]]:
    """Everything that declares keys which can be changed; `app` is the application's class."""
    from gputui.ui.screens.attach.base import AttachScreen
    from gputui.ui.screens.attach.table import ATTACH_SCREENS
    from gputui.ui.screens.device import DeviceScreen
    from gputui.ui.screens.overview import Overview
    from gputui.ui.screens.process import ProcessScreen
    from gputui.ui.widgets.cursored import Cursored

    screens = (Overview, ProcessScreen, DeviceScreen, SubScreen, AttachScreen)
    attached = ATTACH_SCREENS.values()
    return (app, Cursored, *screens, *attached, *(node for screen in attached for node in screen.PARTS_WITH_KEYS))


def bindings_of(node: type[DOMNode]) -> Iterable[Binding]:
    """The bindings that a class declares itself, as `Binding`s."""
    return (binding for binding in node.__dict__.get("BINDINGS", ()) if isinstance(binding, Binding))
