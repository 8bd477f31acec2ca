"""What the filter of the Tensors screen can ask of a block."""

from __future__ import annotations

from gputui.explain.tensor_tree import LiveBlock
from gputui.ui.filtering import Fields

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
        "address": lambda block: f"{block.address:#x}",
    },
    searched=("name", "category", "dtype", "shape", "type", "address"),
    other_names={"size": "bytes", "saved_by": "saved"},
)
