"""How the overview shows its list of processes: filter, order, tree and commands, and the keys for them."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputui.explain.filtering import compared_fields, parse_filter
from gputui.model.reading import value_of
from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDERS, Group, View, process_rows_of
from gputui.ui.screens.table import TableScreen
from gputui.ui.widgets.process_table import ProcessTable


class ProcessListScreen(TableScreen):
    """A screen with a table of processes; the application keeps the view of the list."""

    ORDERS = PROCESS_ORDERS

    BINDINGS: ClassVar[list[BindingType]] = [
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

    @property
    def sorting(self) -> View:
        return self.monitor.view

    def sort_as(self, order: str, *, is_reversed: bool) -> None:
        self.monitor.view = self.monitor.view._replace(order=order, is_reversed=is_reversed)

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

    def action_tree(self) -> None:
        """Switch between jobs with ranks and workers, and a plain list."""
        self.monitor.view = self.monitor.view._replace(is_tree=not self.monitor.view.is_tree)
        self.update_from_monitor()

    def fold(self, group: Group) -> None:
        """Hide the processes of a group in the tree, or show them again."""
        view = self.monitor.view
        self.monitor.view = view._replace(folded_groups=view.folded_groups ^ {group})
        self.update_from_monitor()

    def hint(self, text: str) -> str:
        parse_filter(text, PROCESS_FIELDS)
        rows = process_rows_of(self.monitor.snapshot, View(), self.monitor.appearance)
        for name in compared_fields(text, PROCESS_FIELDS):
            if rows and all(PROCESS_FIELDS.by_name[name](row) is None for row in rows):
                return f"No process here has a value for {name}."
        return ""

    def apply_filter(self, text: str) -> None:
        predicate = parse_filter(text, PROCESS_FIELDS)
        self.monitor.view = self.monitor.view._replace(predicate=predicate, filter_text=text.strip())
        self.monitor.state = self.monitor.state._replace(filter_text=text.strip())
        self.update_from_monitor()
