"""How the overview shows its list of processes: filter, order, tree and commands, and the keys for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from gputui.model.reading import value_of
from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDERS, Group, ProcessRow, View, process_rows_of
from gputui.ui.screens.table import TableScreen
from gputui.ui.widgets.process_table import ProcessTable


class ProcessListScreen(TableScreen):
    """A screen with a table of processes; the application keeps the view of the list."""

    ORDERS = PROCESS_ORDERS
    FIELDS = PROCESS_FIELDS
    NO_VALUE = "No process here has a value for {}."

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
    def view(self) -> View:
        return self.monitor.view

    def change_view(self, **parts: object) -> None:
        self.monitor.view = self.monitor.view._replace(**parts)  # type: ignore[arg-type]
        self.update_from_monitor()

    def all_rows(self) -> Sequence[ProcessRow]:
        return process_rows_of(self.monitor.snapshot, View(), self.monitor.appearance)

    def action_scroll_commands(self, cells: int) -> None:
        """Scroll the column of commands to the right, or back."""
        commands = (value_of(row.command) or "" for row in self.query_one(ProcessTable).entries)
        longest = self.view.command_offset + max(map(len, commands), default=0)
        self.change_view(command_offset=max(0, min(self.view.command_offset + cells, longest - 1)))

    def action_whole_commands(self) -> None:
        """Switch between whole commands and the programs they run."""
        self.change_view(has_whole_commands=not self.view.has_whole_commands, command_offset=0)

    def action_tree(self) -> None:
        """Switch between jobs with ranks and workers, and a plain list."""
        self.change_view(is_tree=not self.view.is_tree)

    def fold(self, group: Group) -> None:
        """Hide the processes of a group in the tree, or show them again."""
        self.change_view(folded_groups=self.view.folded_groups ^ {group})
