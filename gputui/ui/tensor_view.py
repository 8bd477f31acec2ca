"""How somebody looks at the tensors of a process: grouped, sorted, filtered, opened; and the tree that comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gputui.explain.tensor_tree import GROUPINGS, ORDERS, Key, Row, find, rows_of
from gputui.model.moment import DeviceLayout
from gputui.model.tensors import Storage
from gputui.ui.filtering import parse_filter
from gputui.ui.tensor_fields import TENSOR_FIELDS
from gputui.ui.tensor_growth import OPEN_AT_FIRST, Grow, Tree, Wish, grow_now


class TensorView:
    """The choices of the user, kept while screens come and go; `tree` is the newest that was made of them.

    A filtered tree is open from the start, and what is closed in it does not count once the filter is gone. `grow`
    makes trees, perhaps later: until then the one before stays.
    """

    def __init__(self, grow: Grow = grow_now) -> None:
        self._grow = grow
        self._wish = Wish()
        self.tree = Tree(self._wish)
        self._rows: tuple[Row, ...] = ()

    def look_at(self, layout: DeviceLayout | None, storages: tuple[Storage, ...]) -> None:
        """Take a device's newest look and the storages in host memory; a tree is made once for each."""
        if layout is not self._wish.layout or storages != self._wish.storages:
            self._wish_for(replace(self._wish, layout=layout, storages=storages))

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is open, in order."""
        return self._rows

    @property
    def filter_text(self) -> str:
        """The filter as it was typed last."""
        return self._wish.filter_text

    @property
    def is_current(self) -> bool:
        """Whether the tree is of the newest look and choices."""
        return self.tree.wish is self._wish

    @property
    def grouping(self) -> str:
        """How the tree is grouped."""
        return self.tree.wish.grouping

    @property
    def order(self) -> str:
        """By what it is sorted."""
        return self.tree.wish.order

    @property
    def is_reversed(self) -> bool:
        """Whether the other way round."""
        return self.tree.wish.is_reversed

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
        self._wish_for(replace(self._wish, grouping=_next(GROUPINGS, self._wish.grouping)))

    def sort_otherwise(self) -> None:
        """By the next of the orders."""
        self._wish_for(replace(self._wish, order=_next(ORDERS, self._wish.order)))

    def reverse(self) -> None:
        """Turn the order round."""
        self._wish_for(replace(self._wish, is_reversed=not self._wish.is_reversed))

    def filter(self, text: str) -> None:
        """Show only what matches; UsageError for an expression that is wrong, which changes nothing."""
        parse_filter(text, TENSOR_FIELDS)
        self._wish_for(replace(self._wish, filter_text=text.strip(), closed=frozenset()))

    def set_open(self, key: Key, *, is_open: bool) -> None:
        """Open or close a node: at once among the rows that are there."""
        was_current = self.is_current
        self._wish = _turned(self._wish, (key,), is_open=is_open)
        if was_current:
            self._rows = self._turned_rows(key)
            self.tree = replace(self.tree, wish=self._wish, rows=self._rows)
        else:
            self._wish_for(self._wish)

    def open_all(self) -> None:
        """Open every node; where all are open already, back to how it was at first."""
        every = self.tree.branches
        wish = self._wish
        is_all_open = not wish.closed if wish.filter_text else every <= wish.opened
        opened = OPEN_AT_FIRST if is_all_open else every
        self._wish_for(replace(wish, opened=opened, closed=frozenset()))

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
        wish = _turned(self._wish, above, is_open=True)
        if (wish.opened, wish.closed) != (self._wish.opened, self._wish.closed):
            self._wish_for(wish)
        return found.key

    def _wish_for(self, wish: Wish) -> None:
        self._wish = wish
        self._grow(wish, self.tree, self._take)

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
        wish = self._wish
        opened = self.tree.branches - wish.closed if wish.filter_text else wish.opened
        return (*self._rows[:place], *rows_of((row.node,), opened, row.depth), *self._rows[end:])


def _turned(wish: Wish, keys: Iterable[Key], *, is_open: bool) -> Wish:
    """The same wish with these nodes open or closed."""
    turned = frozenset(keys)
    if wish.filter_text:
        return replace(wish, closed=wish.closed - turned if is_open else wish.closed | turned)
    return replace(wish, opened=wish.opened | turned if is_open else wish.opened - turned)


def _next(names: Iterable[str], name: str) -> str:
    every = list(names)
    return every[(every.index(name) + 1) % len(every)]
