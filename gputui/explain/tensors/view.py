"""The user's view of a process's tensors: how they are grouped, sorted, filtered and opened, and the tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gputui.explain.filtering import parse_filter
from gputui.explain.tensors.request import OPEN_AT_FIRST, TENSOR_FIELDS, BuildTree, Tree, TreeRequest, build_tree_now
from gputui.explain.tensors.tree import BY_LINE, GROUPINGS, ORDERS, Key, Row, find, rows_of
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import Storage


class TensorView:
    """The user's choices, kept while screens come and go; `tree` is the newest tree that was built from them.

    A filtered tree starts with all nodes open; which of them the user closes is forgotten with the filter. `build` may
    build a tree later, in another thread: until then, the previous tree stays.
    """

    def __init__(self, build: BuildTree = build_tree_now) -> None:
        self._build = build
        self._request = TreeRequest()
        self.tree = Tree(self._request)

    def look_at(self, layout: DeviceLayout | None, storages: tuple[Storage, ...]) -> None:
        """Show a device's newest look and the storages in host memory; does nothing if they are shown already."""
        if layout is not self._request.layout or storages != self._request.storages:
            self._ask_for(replace(self._request, layout=layout, storages=storages))

    @property
    def filter_text(self) -> str:
        """The filter as the user typed it."""
        return self._request.filter_text

    @property
    def is_current(self) -> bool:
        """Whether the tree shows the newest look and choices."""
        return self.tree.request is self._request

    def next_grouping(self) -> None:
        """Group by the next of: module, shape and, with memory history, the line that allocated."""
        has_lines = any(block.site for block in self.tree.blocks)
        choices = [name for name in GROUPINGS if has_lines or name != BY_LINE]
        self._ask_for(replace(self._request, grouping=_next(choices, self._request.grouping)))

    def next_order(self) -> None:
        """Sort by the next of the orders."""
        self._ask_for(replace(self._request, order=_next(ORDERS, self._request.order)))

    def reverse(self) -> None:
        """Reverse the order."""
        self._ask_for(replace(self._request, is_reversed=not self._request.is_reversed))

    def filter(self, text: str) -> None:
        """Show only the tensors that a filter lets through; raises UsageError and changes nothing if it is wrong."""
        parse_filter(text, TENSOR_FIELDS)
        self._ask_for(replace(self._request, filter_text=text.strip(), closed=frozenset()))

    def set_open(self, key: Key, *, is_open: bool) -> None:
        """Open or close a node, at once if the tree is current."""
        was_current = self.is_current
        self._request = _with_open(self._request, (key,), is_open=is_open)
        if was_current:
            self.tree = replace(self.tree, request=self._request, rows=self._toggled_rows(key))
        else:
            self._ask_for(self._request)

    def open_all(self) -> None:
        """Open every node; if all are open already, only those that are open at first."""
        branches = self.tree.branches
        request = self._request
        is_all_open = not request.closed if request.filter_text else branches <= request.opened
        opened = OPEN_AT_FIRST if is_all_open else branches
        self._ask_for(replace(request, opened=opened, closed=frozenset()))

    def show(self, address: int) -> Key | None:
        """Open the nodes above the block at an address, and drop a filter that hides the block.

        Returns the key of the block's row; None if there is no such block, or its tree is not built yet.
        """
        node = find(self.tree.nodes, address)
        if node is None:
            if self.filter_text and self.is_current:
                self.filter("")
                node = find(self.tree.nodes, address)
            if node is None:
                return None
        above = [node.key[:length] for length in range(1, len(node.key))]
        request = _with_open(self._request, above, is_open=True)
        if (request.opened, request.closed) != (self._request.opened, self._request.closed):
            self._ask_for(request)
        return node.key

    def _ask_for(self, request: TreeRequest) -> None:
        self._request = request
        self._build(request, self.tree, self._take)

    def _take(self, tree: Tree) -> None:
        """Show a tree that was built; if the request has changed meanwhile, its tree will come later."""
        self.tree = tree

    def _toggled_rows(self, key: Key) -> tuple[Row, ...]:
        rows = self.tree.rows
        place = next((place for place, row in enumerate(rows) if row.node.key == key), None)
        if place is None:
            return rows
        row = rows[place]
        end = place + 1
        while end < len(rows) and rows[end].depth > row.depth:
            end += 1
        request = self._request
        opened = self.tree.branches - request.closed if request.filter_text else request.opened
        return (*rows[:place], *rows_of((row.node,), opened, row.depth), *rows[end:])


def _with_open(request: TreeRequest, keys: Iterable[Key], *, is_open: bool) -> TreeRequest:
    """The request with these nodes open or closed."""
    changed = frozenset(keys)
    if request.filter_text:
        return replace(request, closed=request.closed - changed if is_open else request.closed | changed)
    return replace(request, opened=request.opened | changed if is_open else request.opened - changed)


def _next(names: Iterable[str], name: str) -> str:
    choices = list(names)
    return choices[(choices.index(name) + 1) % len(choices)] if name in choices else choices[0]
