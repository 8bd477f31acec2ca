"""The KV cache that generation fills: its tokens, layers and bytes for each token."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import PART_BYTES
from gputui.explain.owners.names import counted, listed, patterns
from gputui.explain.serving.words import cache_words
from gputui.model.attached.analysis import Finding
from gputui.model.attached.tensors import Category, Storage
from gputui.model.weight import Weight
from gputui.units import format_bytes

_OF_TRANSFORMERS = re.compile(r"\.layers\[\d+\]\.(keys|values)$|past_key_values")
"""Names in transformers' caches, whose keys and values have the shape (sequences, heads, tokens, size of a head)."""
_OF_KEYS_AND_VALUES = 4
"""How many dimensions keys or values have; the first of more are for keys and values, and for the layers."""
_NUMBER = re.compile(r"(?<=[.\[])\d+(?=[\].]|$)")
_KEYS_OR_VALUES = re.compile(r"\b(key|value|k|v)(?=s?_)|(?<=_)(key|value|k|v)s?\b")
_BITS = re.compile(r"\d+")


class _Size(NamedTuple):
    """What one tensor has room for: `tokens` for each of `sequences`, or `tokens` in all `blocks` of a paged cache.

    `key_bytes` is what the keys of one layer take.
    """

    tokens: int
    sequences: int
    blocks: int
    key_bytes: int


class _Cache(NamedTuple):
    """All layers of one cache; a server may have a cache for each of its sessions."""

    size: _Size
    layers: int


def kv_cache(situation: Situation) -> Finding | None:
    """How much memory the KV cache takes, in all and for each token."""
    layout = situation.device.layout
    storages = [s for s in layout.storages if s.category is Category.KV_CACHE] if layout else []
    total_bytes = sum(storage.size_bytes for storage in storages)
    if total_bytes < PART_BYTES:
        return None
    storages.sort(key=lambda storage: -storage.size_bytes)
    return Finding(
        weight=Weight.FACT,
        title=cache_words(situation.moment.serving)
        or _title(storages)
        or f"The KV cache takes {format_bytes(total_bytes)}.",
        evidence=(f"It is in {listed(patterns(storage.owner for storage in storages).values())}.",),
        bytes=total_bytes,
        screen="tensors",
        addresses=tuple(storage.address for storage in storages),
        owners=tuple(storage.owner for storage in storages),
    )


def _title(storages: list[Storage]) -> str:
    """The title with tokens, sequences and layers; "" if the shapes do not tell them."""
    caches = list(filter(None, map(_cache_of, _by_cache(storages).values())))
    if not caches:
        return ""
    total_bytes = sum(storage.size_bytes for storage in storages)
    lengths = [cache.size.tokens for cache in caches]
    sequences = sum(cache.size.sequences for cache in caches)
    blocks = sum(cache.size.blocks for cache in caches)
    all_tokens = sum(cache.size.tokens * max(1, cache.size.sequences) for cache in caches)
    if blocks:
        held = f"has room for {counted(all_tokens, 'token')} in {counted(blocks, 'block')}"
    elif len(set(lengths)) == 1:
        held = f"holds {counted(lengths[0], 'token')}" + f" for each of {sequences:,} sequences" * (sequences > 1)
    else:
        held = f"holds {counted(all_tokens, 'token')} of {counted(sequences, 'sequence')}"
    layers = max(cache.layers for cache in caches)
    each = format_bytes(total_bytes // all_tokens)
    return f"The KV cache {held} in {counted(layers, 'layer')}: {format_bytes(total_bytes)}, {each} a token."


def _by_cache(storages: list[Storage]) -> dict[str, dict[str, list[Storage]]]:
    """The tensors by the name of their cache and by their layer, which is the last number in the name."""
    caches: dict[str, dict[str, list[Storage]]] = {}
    for storage in storages:
        name = storage.owner.layer_of_cache
        layer = next(reversed(list(_NUMBER.finditer(name))), None)
        cache = _KEYS_OR_VALUES.sub("", name[: layer.start()] if layer else name)
        caches.setdefault(cache, {}).setdefault(layer[0] if layer else "", []).append(storage)
    return caches


def _cache_of(by_layer: dict[str, list[Storage]]) -> _Cache | None:
    storages = [storage for layer in by_layer.values() for storage in layer]
    size = max(filter(None, map(_size_of, storages)), default=None)
    if size is None:
        return None
    total_bytes = sum(storage.size_bytes for storage in storages)
    by_size = max(1, round(total_bytes / (2 * size.key_bytes)))
    return _Cache(size, len(by_layer) if len(by_layer) > 1 else by_size)


def _size_of(storage: Storage) -> _Size | None:
    bits = _BITS.search(storage.dtype)
    shape = list(storage.shape)
    if len(shape) > _OF_KEYS_AND_VALUES and 2 in shape[:2]:
        shape.remove(2)
    shape = shape[-_OF_KEYS_AND_VALUES:]
    if len(shape) < _OF_KEYS_AND_VALUES - 1 or not prod(shape) or bits is None:
        return None
    key_bytes = max(1, prod(shape) * int(bits[0]) // 8)
    if len(shape) < _OF_KEYS_AND_VALUES:
        return _Size(shape[0], 1, 0, key_bytes)
    sequences, *tokens_and_heads, _ = shape
    if _OF_TRANSFORMERS.search(storage.owner.path):
        return _Size(tokens_and_heads[1], sequences, 0, key_bytes)
    tokens = max(tokens_and_heads)
    if sequences > tokens:
        return _Size(sequences * tokens, 0, sequences, key_bytes)
    return _Size(tokens, sequences, 0, key_bytes)
