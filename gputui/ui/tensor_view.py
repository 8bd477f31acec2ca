"""How somebody looks at the tensors of a process: grouped, sorted, filtered, opened; and the rows that come of it."""

from __future__ import annotations

from gputui.explain.tensor_tree import (
    GROUPINGS,
    HOST,
    ORDERS,
    Key,
    LiveBlock,
    Node,
    Row,
    branch_keys,
    find,
    host_blocks,
    host_node,
    live_blocks,
    rows_of,
    sorted_by,
)
from gputui.model.moment import DeviceLayout
from gputui.model.tensors import Category, Storage
from gputui.ui.filtering import parse_filter
from gputui.ui.tensor_fields import TENSOR_FIELDS

OPEN_AT_FIRST: frozenset[Key] = frozenset((category.value,) for category in Category)


class TensorView:
    """The choices of the user, kept while screens come and go. `rows` are made anew when something changed, not before.

    A filtered tree is open from the start, and what is closed in it does not count once the filter is gone.
    """

    def __init__(self) -> None:
        self.grouping = next(iter(GROUPINGS))
        self.order = next(iter(ORDERS))
        self.is_reversed = False
        self.filter_text = ""
        self.allocated_bytes = 0
        """The sum of all live blocks of the device."""
        self._opened: set[Key] = set(OPEN_AT_FIRST)
        self._closed_in_filter: set[Key] = set()
        self._layout: DeviceLayout | None = None
        self._storages: tuple[Storage, ...] = ()
        self._blocks: tuple[LiveBlock, ...] = ()
        self._host_blocks: tuple[LiveBlock, ...] = ()
        self._nodes: tuple[Node, ...] = ()
        self._rows: tuple[Row, ...] | None = None

    def look_at(self, layout: DeviceLayout | None, storages: tuple[Storage, ...]) -> None:
        """Take a device's newest look and the storages in host memory; the tree is made once for each."""
        if layout is self._layout and storages == self._storages:
            return
        self._layout, self._storages = layout, storages
        self._blocks = live_blocks(layout) if layout else ()
        self._host_blocks = host_blocks(storages)
        self.allocated_bytes = sum(block.bytes for block in self._blocks)
        self._grow()

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is open, in order."""
        if self._rows is None:
            self._rows = rows_of(self._nodes, self._open_keys())
        return self._rows

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._blocks)

    @property
    def shown(self) -> tuple[int, int]:
        """Count and bytes of the device's blocks that the filter lets through."""
        on_device = [node for node in self._nodes if node.key != HOST]
        return sum(node.count for node in on_device), sum(node.bytes for node in on_device)

    def group_otherwise(self) -> None:
        """By modules, or by what looks alike."""
        self.grouping = _next(list(GROUPINGS), self.grouping)
        self._grow()

    def sort_otherwise(self) -> None:
        """By the next of the orders."""
        self.order = _next(list(ORDERS), self.order)
        self._grow()

    def reverse(self) -> None:
        """Turn the order round."""
        self.is_reversed = not self.is_reversed
        self._grow()

    def filter(self, text: str) -> None:
        """Show only what matches; UsageError for an expression that is wrong, which changes nothing."""
        parse_filter(text, TENSOR_FIELDS)
        self.filter_text = text.strip()
        self._closed_in_filter.clear()
        self._grow()

    def set_open(self, key: Key, *, is_open: bool) -> None:
        """Open or close a node."""
        if self.filter_text:
            (self._closed_in_filter.discard if is_open else self._closed_in_filter.add)(key)
        else:
            (self._opened.add if is_open else self._opened.discard)(key)
        self._rows = None

    def open_all(self) -> None:
        """Open every node; where all are open already, back to how it was at first."""
        every = branch_keys(self._nodes)
        self._opened = set(OPEN_AT_FIRST) if every <= self._open_keys() else every
        self._closed_in_filter.clear()
        self._rows = None

    def show(self, address: int) -> Key | None:
        """Open what leads to the block at an address, and drop a filter that hides it; the key of its row."""
        found = find(self._nodes, address)
        if found is None and self.filter_text:
            self.filter("")
            found = find(self._nodes, address)
        if found is None:
            return None
        for length in range(1, len(found.key)):
            self.set_open(found.key[:length], is_open=True)
        return found.key

    def _open_keys(self) -> set[Key]:
        return branch_keys(self._nodes) - self._closed_in_filter if self.filter_text else self._opened

    def _grow(self) -> None:
        nodes = GROUPINGS[self.grouping](self._filtered(self._blocks), ())
        host = self._filtered(self._host_blocks)
        self._nodes = sorted_by(nodes, self.order, is_reversed=self.is_reversed)
        if host:
            self._nodes += sorted_by((host_node(host, self.grouping),), self.order, is_reversed=self.is_reversed)
        self._rows = None

    def _filtered(self, blocks: tuple[LiveBlock, ...]) -> tuple[LiveBlock, ...]:
        predicate = parse_filter(self.filter_text, TENSOR_FIELDS)
        return blocks if predicate is None else tuple(block for block in blocks if predicate(block))


def _next(names: list[str], name: str) -> str:
    return names[(names.index(name) + 1) % len(names)]
