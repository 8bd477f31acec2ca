"""A screen with a table that is filtered and sorted, for one machine or for many: its keys, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from gputui.explain.filtering import Fields, compared_fields, parse_filter
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.columns import Order
from gputui.ui.drawing.fleet.rows import FleetView
from gputui.ui.drawing.monitor.process_rows import View
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.table import Table


class TableScreen(MonitorScreen):
    """A table, and a line for its filter. Subclasses say what its orders and fields are, and keep its view."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"processes": "Processes"}

    ORDERS: ClassVar[Sequence[Order]] = ()

    FIELDS: ClassVar[Fields[Any]]
    """What a filter can compare."""

    NO_VALUE: ClassVar[str] = ""
    """The hint about a field that no row has."""

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
    def view(self) -> View | FleetView:
        """How the table is sorted and filtered."""
        raise NotImplementedError

    def change_view(self, **parts: object) -> None:
        """Keep another view, and draw it."""
        raise NotImplementedError

    def all_rows(self) -> Sequence[object]:
        """The rows without a filter."""
        raise NotImplementedError

    def apply_filter(self, text: str) -> None:
        """Show only what matches; all for an empty text. Raises UsageError for a wrong filter."""
        predicate = parse_filter(text, self.FIELDS)
        self.monitor.state = self.monitor.state._replace(filter_text=text.strip())
        self.change_view(predicate=predicate, filter_text=text.strip())

    def hint(self, text: str) -> str:
        """Which field of a valid filter no row has, "" for none. Raises UsageError for a wrong filter."""
        parse_filter(text, self.FIELDS)
        rows = self.all_rows()
        for name in compared_fields(text, self.FIELDS):
            if rows and all(self.FIELDS.by_name[name](row) is None for row in rows):
                return self.NO_VALUE.format(name)
        return ""

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        if any(order.name == message.column for order in self.ORDERS):
            self._sort_by(message.column, is_reversed=message.column == self.view.order)

    def action_sort(self) -> None:
        """Ask for an order; `o` and its letter can be typed together."""
        choices = [(order.letter, order.title, order.name) for order in self.ORDERS]

        def chosen(name: str | None) -> None:
            if name:
                self._sort_by(name.removeprefix("-"), is_reversed=name.startswith("-"))

        self.app.push_screen(Menu("Sort by (capital letter: reversed)", choices), chosen)

    def _sort_by(self, name: str, *, is_reversed: bool) -> None:
        is_again = self.view.order == name and self.view.is_reversed
        self.change_view(order=name, is_reversed=is_reversed and not is_again)

    def action_reverse(self) -> None:
        self.change_view(is_reversed=not self.view.is_reversed)

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self.view.filter_text)

    @on(FilterLine.Typed)
    def _filter_typed(self, message: FilterLine.Typed) -> None:
        self.apply_filter(message.text)

    @on(FilterLine.Closed)
    def _filter_closed(self) -> None:
        self.query_one(Table).focus()
