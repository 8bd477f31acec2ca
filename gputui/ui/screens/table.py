"""A screen with a table that is filtered and sorted, for one machine or for many: its keys, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual import on
from textual.binding import Binding, BindingType

from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.columns import Order
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.table import Table


class Sorting(Protocol):
    """The part of a view that these keys change."""

    @property
    def order(self) -> str:
        """The name of an order."""
        ...

    @property
    def is_reversed(self) -> bool:
        """Whether it is turned round."""
        ...

    @property
    def filter_text(self) -> str:
        """The filter as it was typed."""
        ...


class TableScreen(MonitorScreen):
    """A table, and a line for its filter. Subclasses say what its orders are, and keep its view."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"processes": "Processes"}

    ORDERS: ClassVar[Sequence[Order]] = ()

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            id="processes.filter",
            tooltip="show only rows that match",
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
    ]

    @property
    def sorting(self) -> Sorting:
        """How the table is sorted and filtered."""
        raise NotImplementedError

    def sort_as(self, order: str, *, is_reversed: bool) -> None:
        """Keep another order."""
        raise NotImplementedError

    def apply_filter(self, text: str) -> None:
        """Show only what matches; all for an empty text. Raises UsageError for a wrong filter."""
        raise NotImplementedError

    def hint(self, text: str) -> str:
        """Which field of a valid filter no row has, "" for none. Raises UsageError for a wrong filter."""
        raise NotImplementedError

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        if any(order.name == message.column for order in self.ORDERS):
            self._sort_by(message.column, is_reversed=message.column == self.sorting.order)

    def action_sort(self) -> None:
        """Ask for an order; `o` and its letter can be typed together."""
        choices = [(order.letter, order.title, order.name) for order in self.ORDERS]

        def chosen(name: str | None) -> None:
            if name:
                self._sort_by(name.removeprefix("-"), is_reversed=name.startswith("-"))

        self.app.push_screen(Menu("Sort by (capital letter: reversed)", choices), chosen)

    def _sort_by(self, name: str, *, is_reversed: bool) -> None:
        old = self.sorting
        self.sort_as(name, is_reversed=is_reversed and not (old.order == name and old.is_reversed))
        self.update_from_monitor()

    def action_reverse(self) -> None:
        self.sort_as(self.sorting.order, is_reversed=not self.sorting.is_reversed)
        self.update_from_monitor()

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self.sorting.filter_text)

    @on(FilterLine.Typed)
    def _filter_typed(self, message: FilterLine.Typed) -> None:
        self.apply_filter(message.text)

    @on(FilterLine.Closed)
    def _filter_closed(self) -> None:
        self.query_one(Table).focus()
