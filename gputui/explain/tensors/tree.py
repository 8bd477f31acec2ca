"""The live blocks as a tree: by category, module and tensor; by shape and element type; or by line of the program.

A tree has every live block of a device once, also blocks without a known owner, so it adds up to the allocated bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gputui.explain.owners.owners import UNATTRIBUTED, owner_of
from gputui.explain.owners.tensor_paths import Path, Words, in_order, joined, key_of, place_of
from gputui.model.attached.allocator import BlockState, CallSite
from gputui.model.attached.analysis import Owner
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import CATEGORIES, Category, Storage
from gputui.units import format_bytes

Key = tuple[str, ...]
"""Identifies a node in this tree and in the next; it begins with the key of the node above."""


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """A live block with its owner and its place in the tree.

    `bytes` is the size of the block, `requested_bytes` what the program requested. For a storage in host memory, which
    has no block, both are the size of the storage.
    """

    address: int
    bytes: int
    requested_bytes: int
    owner: Owner
    path: Path
    site: CallSite | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A category, a module, a group or, with `block`, one live block; `bytes` and `count` include all blocks below."""

    key: Key
    title: str
    category: Category | None
    bytes: int
    count: int
    children: tuple[Node, ...] = ()
    block: LiveBlock | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A visible node, `depth` levels below the top."""

    node: Node
    depth: int
    is_open: bool


Grouping = Callable[[Sequence[LiveBlock], Key], tuple[Node, ...]]
"""Makes nodes of blocks; the key is that of the node above them."""

ORDERS: dict[str, Callable[[Node], int]] = {
    "bytes": lambda node: -node.bytes,
    "count": lambda node: -node.count,
    "name": lambda _: 0,
}
"""How the nodes below one node are sorted; equal ones stay in the order of their names."""


def live_blocks(layout: DeviceLayout) -> tuple[LiveBlock, ...]:
    """Every live block of a device by ascending address."""
    blocks = (
        block
        for release in layout.release.segments
        for block in release.segment.blocks
        if block.state is BlockState.ACTIVE_ALLOCATED
    )
    return tuple(
        _live_block(
            block.address, block.size_bytes, block.requested_bytes, layout.owners.get(block.address), block.site
        )
        for block in sorted(blocks, key=lambda block: block.address)
    )


def host_blocks(storages: Iterable[Storage]) -> tuple[LiveBlock, ...]:
    """Storages in host memory, as if each were a block."""
    return tuple(
        _live_block(
            storage.address,
            storage.size_bytes,
            storage.size_bytes,
            owner_of(storage),
        )
        for storage in storages
    )


def _live_block(
    address: int, size_bytes: int, requested_bytes: int, owner: Owner | None, site: CallSite | None = None
) -> LiveBlock:
    owner = owner or UNATTRIBUTED
    path = place_of(owner)
    if not path or owner.category is Category.UNATTRIBUTED:
        path = (*(path or (Words(f"{format_bytes(requested_bytes)} blocks"),)), f"{address:#x}")
    return LiveBlock(address, size_bytes, requested_bytes, owner, path, site)


def by_module(blocks: Sequence[LiveBlock], above: Key = ()) -> tuple[Node, ...]:
    """Categories, below them modules by name, below them tensors. A module shares a row with an only child.

    Activations stand below the module whose forward pass made them, if the probe knows it.
    """
    members: dict[Category, list[LiveBlock]] = {category: [] for category in CATEGORIES}
    for block in blocks:
        members[block.owner.category].append(block)
    return tuple(
        _node(key, _title(category, members[category]), category, _below(members[category], 0, key))
        for category in CATEGORIES
        for key in ((*above, category.value),)
        if members[category]
    )


def _title(category: Category, members: Sequence[LiveBlock]) -> str:
    is_by_line = category is Category.UNATTRIBUTED and any(block.owner.name for block in members)
    plural = CATEGORIES[category].plural
    return f"{plural}, by line of code" if is_by_line else plural


def by_shape(blocks: Sequence[LiveBlock], above: Key = ()) -> tuple[Node, ...]:
    """Groups of blocks of one category, shape and type, below each its tensors by their full names."""
    alike: dict[tuple[Category, str], list[LiveBlock]] = {}
    for block in blocks:
        alike.setdefault((block.owner.category, description(block)), []).append(block)
    groups = (
        _node(key, words, category, _by_name(_leaf(block, full_name(block), key) for block in members))
        for (category, words), members in alike.items()
        for key in ((*above, category.value, words),)
    )
    return _by_name(groups)


def by_line(blocks: Sequence[LiveBlock], above: Key = ()) -> tuple[Node, ...]:
    """Groups of blocks that the same line of the program allocated, of any category, below each its tensors."""
    lines: dict[str, list[LiveBlock]] = {}
    for block in blocks:
        lines.setdefault(block.site.words if block.site else NO_LINE, []).append(block)
    groups = (
        _node(key, words, _most(members), _by_name(_leaf(block, full_name(block), key) for block in members))
        for words, members in lines.items()
        for key in ((*above, words),)
    )
    return _by_name(groups)


def _most(blocks: Iterable[LiveBlock]) -> Category:
    """The category of most bytes."""
    sizes: Counter[Category] = Counter()
    for block in blocks:
        sizes[block.owner.category] += block.bytes
    return sizes.most_common(1)[0][0]


NO_LINE = "no line in the memory history"
BY_LINE = "line"
GROUPINGS: dict[str, Grouping] = {"module": by_module, "shape": by_shape, BY_LINE: by_line}

HOST: Key = ("host",)


def host_node(blocks: Sequence[LiveBlock], grouping: str) -> Node:
    """The node of host memory, which stands beside the others: it is not allocated on the device."""
    group = by_shape if grouping == BY_LINE else GROUPINGS[grouping]  # no history records host memory
    return _node(HOST, "host memory", None, group(blocks, HOST))


def description(block: LiveBlock) -> str:
    """What a block holds, without its name: "(512, 512) float32 Parameter", and behind a small view its storage."""
    owner = block.owner
    if not owner.dtype:
        return f"{owner.name} of {format_bytes(block.requested_bytes)}" if owner.name else block.path[0]
    view = f" of {format_bytes(block.requested_bytes)}" if owner.hidden_bytes else ""
    return f"{owner.shape} {owner.dtype} {owner.type}{view}"


def hidden_bytes(node: Node) -> int:
    """The bytes below a node that no tensor shows: small views keep large storages."""
    return node.block.owner.hidden_bytes if node.block else sum(map(hidden_bytes, node.children))


def full_name(block: LiveBlock) -> str:
    """The owner's name, or the address of a block that has none."""
    return block.owner.name or f"{block.address:#x}"


def sorted_by(nodes: Iterable[Node], order: str, *, is_reversed: bool = False) -> tuple[Node, ...]:
    """The same nodes, sorted by one of `ORDERS` at every level; they must come sorted by name."""
    ordered = sorted(nodes, key=ORDERS[order])
    return tuple(
        replace(node, children=sorted_by(node.children, order, is_reversed=is_reversed)) if node.children else node
        for node in (reversed(ordered) if is_reversed else ordered)
    )


def rows_of(nodes: Iterable[Node], opened: frozenset[Key] | set[Key], depth: int = 0) -> tuple[Row, ...]:
    """The visible rows of a tree in which the nodes with these keys are open."""
    rows: list[Row] = []
    for node in nodes:
        is_open = node.key in opened
        rows.append(Row(node, depth, is_open))
        if is_open:
            rows += rows_of(node.children, opened, depth + 1)
    return tuple(rows)


def branch_keys(nodes: Iterable[Node]) -> set[Key]:
    """The keys of all nodes with children."""
    keys: set[Key] = set()
    for node in nodes:
        if node.children:
            keys.add(node.key)
            keys |= branch_keys(node.children)
    return keys


def find(nodes: Iterable[Node], address: int) -> Node | None:
    """The node of the block in which an address lies; None if there is none."""
    for node in nodes:
        block = node.block
        if block is not None and block.address <= address < block.address + block.bytes:
            return node
        below = find(node.children, address) if node.children else None
        if below is not None:
            return below
    return None


def _below(blocks: Iterable[LiveBlock], depth: int, key: Key) -> tuple[Node, ...]:
    """The nodes below the node with this key: leaves for blocks whose path ends here, branches for the others."""
    ending: dict[str, list[LiveBlock]] = {}
    continuing: dict[str, list[LiveBlock]] = {}
    for block in blocks:
        is_ending = len(block.path) == depth + 1
        (ending if is_ending else continuing).setdefault(key_of(block.path[depth]), []).append(block)
    branches = (_branch(members, depth, (*key, piece)) for piece, members in continuing.items())
    leaves = (_leaf(block, block.path[depth], (*key, piece)) for piece, members in ending.items() for block in members)
    return _by_name((*branches, *leaves))


def _branch(blocks: Sequence[LiveBlock], depth: int, key: Key) -> Node:
    title = blocks[0].path[depth]
    children = _below(blocks, depth + 1, key)
    if len(children) == 1 and not isinstance(title, Words):  # words cannot be joined to a path
        return replace(children[0], title=joined(title, children[0].title))
    return _node(key, title, blocks[0].owner.category, children)


def _node(key: Key, title: str, category: Category | None, children: tuple[Node, ...]) -> Node:
    return Node(
        key,
        title,
        category,
        bytes=sum(child.bytes for child in children),
        count=sum(child.count for child in children),
        children=children,
    )


def _leaf(block: LiveBlock, title: str, key: Key) -> Node:
    """The node of one block. Its key ends with the address, since several tensors can have the same name."""
    return Node((*key, f"{block.address:#x}"), title, block.owner.category, block.bytes, 1, block=block)


def _by_name(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: in_order(node.title)))
