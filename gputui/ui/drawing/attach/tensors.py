"""The Tensors screen: rows of a tree with bars, a summary above them, and the row under the cursor in full."""

from __future__ import annotations

from functools import reduce

from gputui.explain.owners.tensor_paths import joined
from gputui.explain.tensors.tree import BY_LINE, HOST, LiveBlock, Node, Row, description, hidden_bytes
from gputui.explain.tensors.view import TensorView
from gputui.model.attached.tensors import CATEGORIES
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column
from gputui.ui.drawing.line import Line, Piece, fit, join, spread
from gputui.ui.drawing.meters import meter
from gputui.units import format_bytes

DETAIL_LINES = 2
WHAT_FROM_WIDTH = 110
"""In a narrower table, what a tensor is follows its name."""


def tensor_columns(allocated_bytes: int, grouping: str, width: int, appearance: Appearance) -> tuple[Column[Row], ...]:
    """The columns of a table of `width` cells whose shares are of `allocated_bytes`."""
    is_tree = grouping == "module"

    def share(row: Row) -> float | None:
        return row.node.bytes / allocated_bytes if allocated_bytes and row.node.key[:1] != HOST else None

    def percent(row: Row) -> Piece:
        part = share(row)
        return ("", "plain") if part is None else (f"{100 * part:.1f}%", "dim")

    def bar(row: Row, cells: int) -> Line:
        part = share(row)
        return ((" " * cells, "plain"),) if part is None else meter(part, cells, _role(row.node), appearance.glyphs)

    def name(row: Row, cells: int) -> Line:
        return _name(row, cells, appearance, is_tree=is_tree, has_description=is_tree and width < WHAT_FROM_WIDTH)

    columns: tuple[Column[Row], ...] = (
        Column("name", "Name", 20, draw=name, grow=4, most=72),
        Column("what", "Tensor", 30, _what, from_width=WHAT_FROM_WIDTH, grow=2, most=48),
        Column("count", "Count", 7, _count, align=">"),
        Column("bytes", "Bytes", 9, lambda row: (format_bytes(row.node.bytes), "plain"), align=">"),
        Column("requested", "Requested", 9, _requested, align=">", from_width=100),
        Column("share", "%", 6, percent, align=">"),
        Column("bar", "of allocated", 10, draw=bar, from_width=72, grow=1, most=40),
    )
    return tuple(column for column in columns if is_tree or column.name not in ("what", "count"))


def _what(row: Row) -> Piece:
    block = row.node.block
    return (description(block), "dim") if block and block.owner.dtype else ("", "plain")


def _count(row: Row) -> Piece:
    return ("", "plain") if row.node.block else (f"{row.node.count:,}", "plain")


def _requested(row: Row) -> Piece:
    block = row.node.block
    return ("", "plain") if block is None or not _is_rounded(block) else (format_bytes(block.requested_bytes), "dim")


def _is_rounded(block: LiveBlock) -> bool:
    return format_bytes(block.requested_bytes) != format_bytes(block.bytes)


def _role(node: Node) -> str:
    return f"part-{node.category.value}" if node.category else "dim"


def _name(row: Row, width: int, appearance: Appearance, *, is_tree: bool, has_description: bool) -> Line:
    """The category's letter, the branches of the tree and the title; outside the tree of modules a group has its count.

    With `has_description`, what a tensor is follows its name.
    """
    node = row.node
    pieces: list[Piece] = [(f"{_letter(node)} ", _role(node)), (f"{'  ' * row.depth}{_sign(row, appearance)} ", "dim")]
    if not is_tree and node.children and node.key != HOST:
        pieces.append((f"{node.count} x ", "accent"))
    pieces.append((node.title, "title" if is_tree and row.depth == 0 else "plain"))
    what = _what(row)
    if has_description and what[0]:
        pieces.append((f"  {what[0]}", what[1]))
    return _cut(pieces, width, appearance)


def _letter(node: Node) -> str:
    return CATEGORIES[node.category].letter if node.category else "H"


def _sign(row: Row, appearance: Appearance) -> str:
    if not row.node.children:
        return " "
    signs = "-+" if appearance.is_ascii else "▾▸"
    return signs[0] if row.is_open else signs[1]


def _cut(pieces: list[Piece], width: int, appearance: Appearance) -> Line:
    """The pieces in exactly `width` cells: the last one that fits is cut or padded."""
    cut: list[Piece] = []
    left = width
    for place, (text, role) in enumerate(pieces):
        is_last = place == len(pieces) - 1
        shown = fit(text, left if is_last else min(left, len(text)), ellipsis=appearance.glyphs.ellipsis)
        cut.append((shown, role))
        left -= len(shown)
    return join((*cut, (" " * left, "plain")))


NAMED_WELL = 0.99
"""Below this share of named bytes, the summary gives it."""


GROUPED = {"module": "by module", "shape": "by shape and type", BY_LINE: "by line"}


def draw_summary(view: TensorView, width: int) -> Line:
    """How many blocks there are, how they are grouped and sorted, and how many match the filter."""
    left: list[Piece] = [
        (f" {format_bytes(view.tree.allocated_bytes)}", "title"),
        (f" allocated in {len(view.tree.blocks):,} blocks", "plain"),
    ]
    tree = view.tree
    is_by_line = not tree.named_bytes and any(block.owner.name for block in tree.blocks)
    if 0 <= tree.named_bytes < NAMED_WELL * tree.allocated_bytes and not is_by_line:
        left.append((f", {tree.named_bytes / tree.allocated_bytes:.0%} named", "plain"))
    filter_text = tree.request.filter_text
    if filter_text:
        count, size = view.tree.shown
        left += [(f"  {format_bytes(size)} in {count:,} match ", "plain"), (filter_text, "accent")]
    request = view.tree.request
    how = GROUPED[request.grouping]
    return spread(
        left, [(f"{how}, sorted by {request.order}{' reversed' if request.is_reversed else ''} ", "dim")], width
    )


def draw_detail(row: Row | None, allocated_bytes: int, width: int, appearance: Appearance) -> tuple[Line, ...]:
    """The full name and every fact about the row under the cursor, on `DETAIL_LINES` lines."""
    if row is None:
        return ((),) * DETAIL_LINES
    block = row.node.block
    first, second = _of_block(block) if block else _of_branch(row.node, allocated_bytes)
    if block and row.node.key[:1] == HOST:
        second = f"{description(block)}, {format_bytes(block.bytes)} of host memory"
    cut = appearance.glyphs.ellipsis
    return (
        join(((f" {_letter(row.node)} ", _role(row.node)), (fit(first, width - 3, ellipsis=cut), "title"))),
        ((fit(f"   {second}", width, ellipsis=cut), "plain"),),
    )


def _of_block(block: LiveBlock) -> tuple[str, str]:
    owner = block.owner
    facts = [description(block)] if owner.dtype else []
    if block.site:
        facts.append(f"allocated at {block.site.words}")
    facts.append(f"block {block.address:#x} of {format_bytes(block.bytes)}")
    if block.requested_bytes != block.bytes:
        facts.append(f"{block.requested_bytes:,} bytes requested")
    if owner.saved_by:
        facts.append(f"saved for backward by {owner.saved_by}")
    if owner.module:
        facts.append(f"in {owner.module}")
    if owner.keeper.facts.words or owner.kept_by:
        facts.insert(1, f"kept by {owner.kept_by or owner.keeper.facts.words}")
    name = owner.name or "a block without a known owner"
    return f"{name}  ({owner.category.words})", ", ".join(facts)


def _of_branch(node: Node, allocated_bytes: int) -> tuple[str, str]:
    what = "storages" if node.key[:1] == HOST else "blocks"
    second = f"{node.count:,} {what}, {format_bytes(node.bytes)}"
    if node.key[:1] != HOST and allocated_bytes:
        second += f", {100 * node.bytes / allocated_bytes:.1f}% of allocated memory"
    hidden = hidden_bytes(node)
    second += f", of which its tensors show {format_bytes(node.bytes - hidden)}" if hidden else ""
    names = node.key[2:] if node.key[:1] == HOST else node.key[1:]
    return reduce(joined, names) if names else node.title, second
