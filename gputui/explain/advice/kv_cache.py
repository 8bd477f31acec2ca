"""The cache of keys and values that generation fills: its tokens, layers and bytes for each token."""

from __future__ import annotations

from gputui.explain.advice.names import counted, family, listed
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import PART_BYTES
from gputui.model.finding import Finding, Weight
from gputui.model.tensors import Category, Storage
from gputui.units import format_bytes

DIMENSIONS = 4
"""Keys and values are of shape (sequences, heads, tokens, size of a head)."""


def kv_cache(situation: Situation) -> Finding | None:
    """How much memory the keys and values take, in all and for each token."""
    layout = situation.device.layout
    storages = [s for s in layout.storages if s.category is Category.KV_CACHE] if layout else []
    total_bytes = sum(storage.size_bytes for storage in storages)
    if total_bytes < PART_BYTES:
        return None
    storages.sort(key=lambda storage: -storage.size_bytes)
    measured = [storage for storage in storages if len(storage.shape) == DIMENSIONS and storage.shape[2]]
    return Finding(
        kind="kv_cache",
        weight=Weight.FACT,
        title=_title(measured, total_bytes) if measured else f"The KV cache takes {format_bytes(total_bytes)}.",
        evidence=(f"It is in {listed(dict.fromkeys(family(storage.owner) for storage in storages))}.",),
        bytes=total_bytes,
        screen="tensors",
        addresses=tuple(storage.address for storage in storages),
        owners=tuple(storage.owner for storage in storages),
    )


def _title(measured: list[Storage], total_bytes: int) -> str:
    sequences, _, tokens, _ = max((storage.shape for storage in measured), key=lambda shape: shape[2])
    layers = max(1, len(measured) // 2)  # keys and values
    each = f" for each of {sequences:,} sequences" if sequences > 1 else ""
    return (
        f"The KV cache holds {counted(tokens, 'token')}{each} in {counted(layers, 'layer')}:"
        f" {format_bytes(total_bytes)}, {format_bytes(total_bytes // (tokens * sequences))} a token."
    )
