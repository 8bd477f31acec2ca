"""The entry of a storage: the fields of `gputui.model.attached.tensors.Storage`."""

from __future__ import annotations

from typing import Any, Dict

from gputui.protocol.owners import Owner

HOST = -1
Entry = Dict[str, Any]


def new_entry(  # noqa: PLR0913, PLR0917 (one argument for each field)
    device: int,
    address: int,
    size_bytes: int,
    category: str,
    owner: Owner,
    keeper: str,
    type_of_tensor: str,
    shape: list[int],
    dtype: str,
    views: list[list[int]],
    *,
    is_pinned: bool,
) -> Entry:
    """The fields of `gputui.model.attached.tensors.Storage`."""
    return {
        "device": device,
        "address": address,
        "size_bytes": size_bytes,
        "category": category,
        "owner": owner,
        "keeper": keeper,
        "type": type_of_tensor,
        "shape": shape,
        "dtype": dtype,
        "saved_by": "",
        "module": "",
        "kept_by": (),
        "is_pinned": is_pinned,
        "views": views,
    }
