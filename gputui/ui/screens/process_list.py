"""How the overview shows its list of processes: filter, order, tree and commands, and the keys for them."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from gputui.explain.filtering import compared_fields, parse_filter
from gputui.model.reading import value_of
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDER_BY_NAME, Group, View, process_rows_of
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.process_table import ProcessTable


class ProcessListScreen(MonitorScreen):
    """A screen with a table of processes, and a line for its filter; the application keeps the view of the list."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"processes": "Processes"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            id="processes.filter",
            tooltip="show only processes that match",
        ),
        Binding(
            "o,f6",
            "sort",
            "Sort",
            key_display="o",
            id="processes.sort",
            tooltip="sort: o, then a letter, capital to reverse",
        ),
        Binding("r", "reverse", "Reverse", show=False, id="processes.reverse", tooltip="reverse the order"),
        Binding("t", "tree", "Tree", id="processes.tree", tooltip="group by job or launcher, with workers"),
        Binding(
            "right", "scroll_commands(8)", "Right", show=False, id="processes.right", tooltip="scroll long commands"
        ),
        Binding("left", "scroll_commands(-8)", "Left", show=False, id="processes.left", tooltip="scroll commands back"),
        Binding(
            "W",
            "whole_commands",
            "Whole commands",
            show=False,
            id="processes.whole",
            tooltip="whole commands, or the programs they run",
        ),
    ]

    @on(ProcessTable.HeadClicked)
    def _head_clicked(self, message: ProcessTable.HeadClicked) -> None:
        if message.column in PROCESS_ORDER_BY_NAME:
            self._sort_by(message.column, is_reversed=message.column == self.monitor.view.order)

    def action_scroll_commands(self, cells: int) -> None:
        """Scroll the column of commands to the right, or back."""
        view = self.monitor.view
        commands = (value_of(row.command) or "" for row in self.query_one(ProcessTable).entries)
        longest = view.command_offset + max(map(len, commands), default=0)
        offset = max(0, min(view.command_offset + cells, longest - 1))
        self.monitor.view = view._replace(command_offset=offset)
        self.update_from_monitor()

    def action_whole_commands(self) -> None:
        """Switch between whole commands and the programs they run."""
        view = self.monitor.view
        self.monitor.view = view._replace(has_whole_commands=not view.has_whole_commands, command_offset=0)
        self.update_from_monitor()

    def action_sort(self) -> None:
        """Ask for an order; `o` and its letter can be typed together."""
        choices = [(order.letter, order.title, order.name) for order in PROCESS_ORDER_BY_NAME.values()]

        def chosen(name: str | None) -> None:
            if name:
                self._sort_by(name.removeprefix("-"), is_reversed=name.startswith("-"))

        self.app.push_screen(Menu("Sort by (capital letter: reversed)", choices), chosen)

    def _sort_by(self, name: str, *, is_reversed: bool) -> None:
        old = self.monitor.view
        toggled = is_reversed and not (old.order == name and old.is_reversed)
        self.monitor.view = old._replace(order=name, is_reversed=toggled)
        self.update_from_monitor()

    def action_reverse(self) -> None:
        self.monitor.view = self.monitor.view._replace(is_reversed=not self.monitor.view.is_reversed)
        self.update_from_monitor()

    def action_tree(self) -> None:
        """Switch between jobs with ranks and workers, and a plain list."""
        self.monitor.view = self.monitor.view._replace(is_tree=not self.monitor.view.is_tree)
        self.update_from_monitor()

    def fold(self, group: Group) -> None:
        """Hide the processes of a group in the tree, or show them again."""
        view = self.monitor.view
        self.monitor.view = view._replace(folded_groups=view.folded_groups ^ {group})
        self.update_from_monitor()

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self.monitor.view.filter_text)

    def hint(self, text: str) -> str:
        """Which field of a valid filter no row has, "" for none. Raises UsageError for a wrong filter."""
        parse_filter(text, PROCESS_FIELDS)
        rows = process_rows_of(self.monitor.snapshot, View(), self.monitor.appearance)
        for name in compared_fields(text, PROCESS_FIELDS):
            if rows and all(PROCESS_FIELDS.by_name[name](row) is None for row in rows):
                return f"No process here has a value for {name}."
        return ""

    @on(FilterLine.Typed)
    def _filter_typed(self, message: FilterLine.Typed) -> None:
        self.apply_filter(message.text)

    def apply_filter(self, text: str) -> None:
        """Show only the processes that match; all for an empty text. Raises UsageError for a wrong filter."""
        predicate = parse_filter(text, PROCESS_FIELDS)
        self.monitor.view = self.monitor.view._replace(predicate=predicate, filter_text=text.strip())
        self.monitor.state = self.monitor.state._replace(filter_text=text.strip())
        self.update_from_monitor()

    @on(FilterLine.Closed)
    def _filter_closed(self) -> None:
        self.query_one(ProcessTable).focus()
