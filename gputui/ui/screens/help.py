"""The help screen: every key, grouped by what it is for."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.dom import DOMNode

from gputui.ui.bindings import key_name
from gputui.ui.drawing.fleet.fields import FLEET_FIELDS
from gputui.ui.drawing.line import Line, fit, join, wrap
from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.screens.base import SubScreen
from gputui.ui.widgets.page import Page

APP_KEY_GROUPS = {"app": "Everywhere", "copy": "Copying"}

ACTING = ("signal.", "actions.", "processes.tag")
"""How the ids of keys begin that --readonly removes."""

FILTER, FLEET_FILTER = (
    (
        f"Filter: words are searched for in {searched}. Expressions compare fields with == != > >= < <= ~, "
        f"joined by and, or, not: {example}. Fields: {', '.join(fields)}."
    )
    for searched, example, fields in (
        ("command, user, PID, job, pod, container and unit", "user==ana and mem>10GiB", PROCESS_FIELDS.by_name),
        ("names of nodes, clusters, GPUs, users, jobs and programs", "util<10 and mem>100GiB", FLEET_FIELDS.by_name),
    )
)
NOTES: tuple[str, ...] = (
    "Memory is as NVML reports it, in powers of 1024. A dash is a reading that is not available; Enter shows why.",
    "The keys on this page can be changed in the settings file, under [keys], with the names on the right.",
)


class HelpScreen(SubScreen):
    """All keys with their words."""

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        """Redraw the page, for its new size."""
        self.query_one(Page).redraw()

    def _draw_page(self, width: int, _height: int) -> list[Line]:
        lines: list[Line] = [((fit("Keys", width), "title"),)]
        app = type(self.app)
        nodes = tuple(fleet_owners(app) if self._is_fleet else (node for node in owners(app) if not is_of_fleet(node)))
        bindings = {binding.id: binding for node in nodes for binding in bindings_of(node) if binding.id}
        for group, title in key_groups(nodes).items():
            members = [binding for name, binding in bindings.items() if self._is_in(name, group)]
            if members:
                lines += [(), ((title, "title"),), *(self._key_line(binding, width) for binding in members)]
        for note in (FLEET_FILTER if self._is_fleet else FILTER, *NOTES):
            lines += [(), *wrap(note, min(width, 100), "dim")]
        return lines

    @property
    def _is_fleet(self) -> bool:
        return self.monitor.snapshot.fleet is not None

    def _is_in(self, name: str, group: str) -> bool:
        """Whether the help shows a binding of this id in a group; with --readonly, keys in `ACTING` are not shown."""
        is_hidden = name.startswith(ACTING) and self.monitor.state.is_readonly
        return name.partition(".")[0] == group and not is_hidden

    def _key_line(self, binding: Binding, width: int) -> Line:
        changed = self.monitor.keymap.get(binding.id or "", binding.key)
        keys = " ".join(self.app.get_key_display(Binding(key.strip(), "", "")) for key in changed.split(","))
        words = binding.tooltip or binding.description
        name = f" {binding.id}" if width >= 60 else ""
        room = width - 20 - len(name)
        return join(((fit(f"  {keys}", 20), "key"), (fit(words, room), "plain"), (name, "dim")))


def screens_of(app: type[DOMNode]) -> list[tuple[type[DOMNode], ...]]:
    """For each full screen, the classes that declare keys which work on it; `app` is the application's."""
    from gputui.ui.screens.attach.base import AttachScreen
    from gputui.ui.screens.attach.table import ATTACH_SCREENS
    from gputui.ui.screens.device import DeviceScreen
    from gputui.ui.screens.fleet.screen import FleetScreen
    from gputui.ui.screens.overview import Overview
    from gputui.ui.screens.past import PastScreen
    from gputui.ui.screens.process import ProcessScreen
    from gputui.ui.screens.process_list import ProcessListScreen
    from gputui.ui.screens.table import TableScreen
    from gputui.ui.widgets.cursored import Cursored

    attached = [entry.screen_class for entry in ATTACH_SCREENS.values()]
    own: list[tuple[type[DOMNode], ...]] = [
        (TableScreen, FleetScreen),
        (TableScreen, ProcessListScreen, Overview),
        (ProcessScreen, SubScreen),
        (DeviceScreen, SubScreen),
        (PastScreen, SubScreen),
    ]
    own += [(AttachScreen, screen, *screen.PARTS_WITH_KEYS) for screen in attached]
    return [(app, Cursored, *nodes) for nodes in own]


def owners(app: type[DOMNode]) -> Iterable[type[DOMNode]]:
    """Every class that declares keys that can be changed."""
    nodes = dict.fromkeys(node for nodes in screens_of(app) for node in nodes if node is not SubScreen)
    return (*nodes, SubScreen)


def fleet_owners(app: type[DOMNode]) -> Iterable[type[DOMNode]]:
    """The classes whose keys work on the screen of many machines, and on the screens on top of it."""
    return (*screens_of(app)[0], SubScreen)


def is_of_fleet(node: type[DOMNode]) -> bool:
    """Whether keys work only where many machines are shown."""
    return "fleet" in node.__dict__.get("KEY_GROUPS", {})


def scopes(app: type[DOMNode]) -> list[frozenset[str]]:
    """For each full screen, the ids of all keys that work on it."""
    return [
        frozenset(binding.id for node in nodes for binding in bindings_of(node) if binding.id)
        for nodes in screens_of(app)
    ]


def default_keys(app: type[DOMNode]) -> dict[str, frozenset[str]]:
    """The keys of all actions whose keys the settings can change, by the ids of their bindings."""
    keys: dict[str, frozenset[str]] = {}
    for node in owners(app):
        for binding in bindings_of(node):
            if binding.id:
                own = frozenset(key_name(key.strip()) for key in binding.key.split(","))
                keys[binding.id] = keys.get(binding.id, frozenset()) | own
    return keys


def key_groups(nodes: Iterable[type[DOMNode]]) -> dict[str, str]:
    """The headings from top to bottom, by the first part of the ids of their keys."""
    groups = dict(APP_KEY_GROUPS)
    for node in nodes:
        groups |= {group: title for group, title in node.__dict__.get("KEY_GROUPS", {}).items() if group not in groups}
    return groups


def bindings_of(node: type[DOMNode]) -> Iterable[Binding]:
    """The bindings that a class declares itself."""
    return (binding for binding in node.__dict__.get("BINDINGS", ()) if isinstance(binding, Binding))
