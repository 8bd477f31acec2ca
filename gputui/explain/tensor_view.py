"""How somebody looks at the tensors of a process: grouped, sorted, filtered, opened; and the tree that comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gputui.explain.filtering import parse_filter
from gputui.explain.tensor_request import OPEN_AT_FIRST, TENSOR_FIELDS, BuildTree, Tree, TreeRequest, build_tree_now
from gputui.explain.tensor_tree import GROUPINGS, ORDERS, Key, Row, find, rows_of
from gputui.model.moment import DeviceLayout
from gputui.model.tensors import Storage


class TensorView:
    """The choices of the user, kept while screens come and go; `tree` is the newest that was made of them.

    A filtered tree is open from the start, and what is closed in it does not count once the filter is gone. `grow`
    makes trees, perhaps later: until then the one before stays.
    """

    def __init__(self, grow: BuildTree = build_tree_now) -> None:
        self._grow = grow
        self._request = TreeRequest()
        self.tree = Tree(self._request)
        self._rows: tuple[Row, ...] = ()

    def look_at(self, layout: DeviceLayout | None, storages: tuple[Storage, ...]) -> None:
        """Take a device's newest look and the storages in host memory; a tree is made once for each."""
        if layout is not self._request.layout or storages != self._request.storages:
            self._ask_for(replace(self._request, layout=layout, storages=storages))

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is open, in order."""
        return self._rows

    @property
    def filter_text(self) -> str:
        """The filter as it was typed last."""
        return self._request.filter_text

    @property
    def is_current(self) -> bool:
        """Whether the tree is of the newest look and choices."""
        return self.tree.request is self._request

    @property
    def grouping(self) -> str:
        """How the tree is grouped."""
        return self.tree.request.grouping

    @property
    def order(self) -> str:
        """By what it is sorted."""
        return self.tree.request.order

    @property
    def is_reversed(self) -> bool:
        """Whether the other way round."""
        return self.tree.request.is_reversed

    @property
    def allocated_bytes(self) -> int:
        """The sum of all live blocks of the device."""
        return self.tree.allocated_bytes

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.tree.blocks)

    @property
    def shown(self) -> tuple[int, int]:
        """Count and bytes of those that the filter lets through."""
        return self.tree.shown

    def group_otherwise(self) -> None:
        """By modules, or by what looks alike."""
        self._ask_for(replace(self._request, grouping=_next(GROUPINGS, self._request.grouping)))

    def sort_otherwise(self) -> None:
        """By the next of the orders."""
        self._ask_for(replace(self._request, order=_next(ORDERS, self._request.order)))

    def reverse(self) -> None:
        """Turn the order round."""
        self._ask_for(replace(self._request, is_reversed=not self._request.is_reversed))

    def filter(self, text: str) -> None:
        """Show only what matches; UsageError for an expression that is wrong, which changes nothing."""
        parse_filter(text, TENSOR_FIELDS)
        self._ask_for(replace(self._request, filter_text=text.strip(), closed=frozenset()))

    def set_open(self, key: Key, *, is_open: bool) -> None:
        """Open or close a node: at once among the rows that are there."""
        was_current = self.is_current
        self._request = _turned(self._request, (key,), is_open=is_open)
        if was_current:
            self._rows = self._turned_rows(key)
            self.tree = replace(self.tree, request=self._request, rows=self._rows)
        else:
            self._ask_for(self._request)

    def open_all(self) -> None:
        """Open every node; where all are open already, back to how it was at first."""
        every = self.tree.branches
        request = self._request
        is_all_open = not request.closed if request.filter_text else every <= request.opened
        opened = OPEN_AT_FIRST if is_all_open else every
        self._ask_for(replace(request, opened=opened, closed=frozenset()))

    def show(self, address: int) -> Key | None:
        """Open what leads to the block at an address, and drop a filter that hides it.

        The key of its row; None where it has none, or none yet.
        """
        found = find(self.tree.nodes, address)
        if found is None:
            if self.filter_text and self.is_current:
                self.filter("")
                found = find(self.tree.nodes, address)
            if found is None:
                return None
        above = [found.key[:length] for length in range(1, len(found.key))]
        request = _turned(self._request, above, is_open=True)
        if (request.opened, request.closed) != (self._request.opened, self._request.closed):
            self._ask_for(request)
        return found.key

    def _ask_for(self, request: TreeRequest) -> None:
        self._request = request
        self._grow(request, self.tree, self._take)

    def _take(self, tree: Tree) -> None:
        """A tree is made; where more was wished for meanwhile, another one is under way."""
        self.tree, self._rows = tree, tree.rows

    def _turned_rows(self, key: Key) -> tuple[Row, ...]:
        place = next((place for place, row in enumerate(self._rows) if row.node.key == key), None)
        if place is None:
            return self._rows
        row = self._rows[place]
        end = place + 1
        while end < len(self._rows) and self._rows[end].depth > row.depth:
            end += 1
        request = self._request
        opened = self.tree.branches - request.closed if request.filter_text else request.opened
        return (*self._rows[:place], *rows_of((row.node,), opened, row.depth), *self._rows[end:])


def _turned(request: TreeRequest, keys: Iterable[Key], *, is_open: bool) -> TreeRequest:
    """The same request with these nodes open or closed."""
    turned = frozenset(keys)
    if request.filter_text:
        return replace(request, closed=request.closed - turned if is_open else request.closed | turned)
    return replace(request, opened=request.opened | turned if is_open else request.opened - turned)


def _next(names: Iterable[str], name: str) -> str:
    every = list(names)
    return every[(every.index(name) + 1) % len(every)]
