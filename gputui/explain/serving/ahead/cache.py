"""The KV cache that a server plans for a model: groups of layers, and the bytes of a block.

Source: `get_kv_cache_groups` and `_get_kv_cache_groups_uniform_page_size` of vLLM 0.33, and its `AttentionSpec`s.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gputui.explain.serving.ahead.architecture import Architecture
from gputui.explain.serving.ahead.elements import heads_on
from gputui.explain.serving.ahead.quantization import WIDTHS
from gputui.model.attached.serving import KvGroup

BLOCK_SIZE, LATENT_BLOCK_SIZE = 16, 64
"""vLLM's default block sizes in tokens; with latent attention it is the size that the kernels need."""
MUCH_LARGER = 1.5
"""Where the kinds of layers differ in number by a smaller factor, vLLM pads the groups to the larger number."""
WIDTH_OF_FP8 = 1


@dataclass(frozen=True, slots=True)
class CachePlan:
    """The groups of layers. `bytes_per_block` is what a block takes in all layers of a group, on one device."""

    groups: tuple[KvGroup, ...]
    bytes_per_block: int

    @property
    def bytes_per_token(self) -> float:
        """The bytes of a token in all layers, without the saving of sliding windows."""
        size = self.groups[0].block_size or 1
        return self.bytes_per_block * len(self.groups) / size


def cache_plan(model: Architecture, dtype: str, kv_dtype: str, block_size: int | None, devices: int) -> CachePlan:
    """The plan for one of `devices` devices of tensor parallelism; `block_size` None is vLLM's default."""
    size = block_size or (LATENT_BLOCK_SIZE if model.latent else BLOCK_SIZE)
    _, heads = heads_on(model, devices)
    width = WIDTH_OF_FP8 if kv_dtype.startswith("fp8") else WIDTHS.get(kv_dtype, WIDTHS[dtype])
    latent = model.latent
    page = size * width * (latent.kv_rank + latent.rope_size if latent else 2 * heads * model.head_size)
    counts = Counter(model.windows)
    most = _layers_of_a_group(list(counts.values()))
    groups = tuple(
        KvGroup(
            layers=len(range(part, layers, parts)),
            block_size=size,
            heads=1 if latent else heads,
            head_size=latent.kv_rank + latent.rope_size if latent else model.head_size,
            dtype="float8_e4m3fn" if width == WIDTH_OF_FP8 else dtype,
            sliding_window=window,
        )
        for window, layers in counts.items()
        for parts in (-(-layers // most),)
        for part in range(parts)
    )
    return CachePlan(groups, page * max(group.layers or 0 for group in groups))


def _layers_of_a_group(counts: list[int]) -> int:
    """How many layers a group has, from the number of layers of each kind: the fewest, or the most if close to it."""
    least, most = min(counts), max(counts)
    return most if most < least * MUCH_LARGER else least
