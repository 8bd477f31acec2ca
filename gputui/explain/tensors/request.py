"""Builds the tree of tensors from a look and the user's choices; both are immutable, so any thread may do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gputui.explain.filtering import SIZE, Fields, parse_filter
from gputui.explain.owners.tensor_paths import module_of
from gputui.explain.tensors.tree import (
    GROUPINGS,
    HOST,
    ORDERS,
    Key,
    LiveBlock,
    Node,
    Row,
    branch_keys,
    host_blocks,
    host_node,
    live_blocks,
    rows_of,
    sorted_by,
)
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import Category, Storage

TENSOR_FIELDS: Fields[LiveBlock] = Fields(
    {
        "name": lambda block: block.owner.name,
        "category": lambda block: block.owner.category.value,
        "dtype": lambda block: block.owner.dtype or None,
        "shape": lambda block: "x".join(map(str, block.owner.shape)) if block.owner.dtype else None,
        "type": lambda block: block.owner.type or None,
        "bytes": lambda block: block.bytes,
        "requested": lambda block: block.requested_bytes,
        "saved": lambda block: block.owner.saved_by or None,
        "line": lambda block: block.site.words if block.site else None,
        "module": lambda block: module_of(block.owner) or None,
        "address": lambda block: f"{block.address:#x}",
    },
    searched=("name", "category", "dtype", "shape", "type", "address"),
    other_names={"size": "bytes", "saved_by": "saved"},
    quantities={"bytes": SIZE, "requested": SIZE},
)
"""The fields that the filter of the Tensors screen knows."""

OPEN_AT_FIRST: frozenset[Key] = frozenset((category.value,) for category in Category)


@dataclass(frozen=True, eq=False)
class TreeRequest:
    """What a tree is built from: a look, how to group, sort and filter its blocks, and which nodes are open.

    `storages` are those in host memory. Without a filter, the nodes in `opened` are open; with one, all but `closed`.
    """

    layout: DeviceLayout | None = None
    storages: tuple[Storage, ...] = ()
    grouping: str = next(iter(GROUPINGS))
    order: str = next(iter(ORDERS))
    is_reversed: bool = False
    filter_text: str = ""
    opened: frozenset[Key] = OPEN_AT_FIRST
    closed: frozenset[Key] = frozenset()

    def has_look_of(self, other: TreeRequest) -> bool:
        """Whether both requests are about the same look."""
        return self.layout is other.layout and self.storages == other.storages

    def has_nodes_of(self, other: TreeRequest) -> bool:
        """Whether both requests give the same nodes, apart from which of them are open."""
        return (
            self.has_look_of(other)
            and (self.grouping, self.order, self.is_reversed) == (other.grouping, other.order, other.is_reversed)
            and self.filter_text == other.filter_text
        )


@dataclass(frozen=True, eq=False)
class Tree:
    """The result of a request: the nodes, the keys of the nodes with children (`branches`), and the visible rows."""

    request: TreeRequest = TreeRequest()
    blocks: tuple[LiveBlock, ...] = ()
    host_blocks: tuple[LiveBlock, ...] = ()
    nodes: tuple[Node, ...] = ()
    branches: frozenset[Key] = frozenset()
    rows: tuple[Row, ...] = ()
    allocated_bytes: int = 0
    """The bytes of all live blocks of the device, whatever the filter."""
    named_bytes: int = 0
    """The bytes of the live blocks that have a known owner."""

    @property
    def shown(self) -> tuple[int, int]:
        """Count and bytes of the device's blocks that the filter lets through."""
        on_device = [node for node in self.nodes if node.key != HOST]
        return sum(node.count for node in on_device), sum(node.bytes for node in on_device)


BuildTree = Callable[[TreeRequest, Tree, Callable[[Tree], None]], None]
"""Builds the tree of a request from an earlier tree and passes it to the function, at once or later."""


def build_tree_now(request: TreeRequest, earlier: Tree, take: Callable[[Tree], None]) -> None:
    """Build the tree in this thread, at once."""
    take(build_tree(request, earlier))


def build_tree(request: TreeRequest, earlier: Tree) -> Tree:
    """The tree of a request; parts that have not changed are taken from the `earlier` tree."""
    if request.has_look_of(earlier.request):
        blocks, on_host = earlier.blocks, earlier.host_blocks
    else:
        blocks, on_host = live_blocks(request.layout) if request.layout else (), host_blocks(request.storages)
    if request.has_nodes_of(earlier.request):
        nodes, branches = earlier.nodes, earlier.branches
    else:
        nodes = _nodes(request, blocks, on_host)
        branches = frozenset(branch_keys(nodes))
    opened = branches - request.closed if request.filter_text else request.opened
    allocated = sum(block.bytes for block in blocks)
    named = sum(block.bytes for block in blocks if block.owner.category not in (Category.UNATTRIBUTED, Category.NEWER))
    return Tree(request, blocks, on_host, nodes, branches, rows_of(nodes, opened), allocated, named)


def _nodes(request: TreeRequest, blocks: Iterable[LiveBlock], on_host: Iterable[LiveBlock]) -> tuple[Node, ...]:
    predicate = parse_filter(request.filter_text, TENSOR_FIELDS) or (lambda _: True)
    nodes = GROUPINGS[request.grouping]([block for block in blocks if predicate(block)], ())
    top = sorted_by(nodes, request.order, is_reversed=request.is_reversed)
    host = [block for block in on_host if predicate(block)]
    if host:
        top += sorted_by((host_node(host, request.grouping),), request.order, is_reversed=request.is_reversed)
    return top
