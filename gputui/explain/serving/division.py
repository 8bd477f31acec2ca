"""How a server divides its device: each byte in one part, by the server's names, from what is measured now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from gputui.explain.memory.parts import parts_of
from gputui.explain.owners.owners import bytes_by_category, owner_of
from gputui.explain.serving.asleep import asleep, category_of
from gputui.model.attached.allocator import BlockState
from gputui.model.attached.moment import DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.attached.serving import ServingProfile
from gputui.model.attached.tensors import OF_MODULES, WEIGHTS, Category, Storage
from gputui.model.reading import value_of

BUFFERS = tuple(frozenset(Category) - {*OF_MODULES, Category.KV_CACHE, Category.UNATTRIBUTED, Category.NEWER})
"""Categories of named tensors that are neither the model's nor KV cache: inputs, the sampler's tensors, workspaces."""
APART = frozenset({*OF_MODULES, Category.KV_CACHE})
"""Categories with parts of their own: where they lie in the pool of a CUDA graph, they do not count as the graph's."""
MEM_POOL = "torch.cuda.MemPool"
BY_NAME = {
    "lora": ("lora_a_stacked", "lora_b_stacked"),
    "masks": ("attention_mask",),
}
"""Parts of the engine's buffers, by words in the names of their tensors.

vLLM's layers keep space for max_loras adapters, filled or not. Continuous batching in transformers has a mask of all
tokens in a batch by all tokens in the cache, unless it uses flash attention.
"""
QUANTISED_TYPES = ("float8", "float4", "int8", "uint8", "int32")
"""How the data types of quantised weights begin: an int32 may pack several smaller elements."""
_OUTER = ("outside", "others", "driver")


class PartFacts(NamedTuple):
    """How a part of the division is shown; it has the colour of the part `drawn_as` of `memory.parts`."""

    name: str
    short: str
    letter: str
    drawn_as: str


PARTS = {
    "weights": PartFacts("weights", "weights", "P", "parameter"),
    "quantised": PartFacts("weights, quantised", "quantised", "Q", "parameter"),
    "lora": PartFacts("LoRA adapters", "LoRA", "L", "parameter"),
    "kv_cache": PartFacts("KV cache", "KV cache", "K", "kv_cache"),
    "masks": PartFacts("attention masks", "masks", "M", "other"),
    "graphs": PartFacts("CUDA graphs (private pools)", "CUDA graphs", "v", "private"),
    "buffers": PartFacts("the engine's other buffers", "other buffers", "X", "other"),
    "unnamed": PartFacts("not named yet", "not named yet", "U", "unattributed"),
    "cached": PartFacts("free in PyTorch's cache", "PyTorch's cache", "c", "cached"),
    "outside": PartFacts("outside PyTorch (CUDA context, libraries)", "outside PyTorch", "x", "outside"),
    "others": PartFacts("other processes", "other processes", "#", "others"),
    "driver": PartFacts("driver's own", "driver's own", "d", "driver"),
    "kept": PartFacts("free, kept for activations", "for activations", "A", "activation"),
    "left": PartFacts("free, left by gpu_memory_utilization", "not requested", ".", "free"),
    "free": PartFacts("free on device", "free on device", ".", "free"),
}


@dataclass(frozen=True, slots=True)
class ServedPart:
    """A part of the device, in bytes; `key` is its name in documents."""

    key: str
    bytes: int
    dtypes: tuple[str, ...] = ()
    """The data types of the weights, the largest part first."""

    @property
    def facts(self) -> PartFacts:
        """How the part is shown."""
        return PARTS[self.key]


def division(moment: TargetMoment, device: DeviceMoment) -> tuple[ServedPart, ...]:
    """The parts of a device that a server's model is on; () without an engine, or before the first look.

    They add up to the device's total where NVML reports it, else to what PyTorch has reserved. Without the allocator's
    map, memory of CUDA graphs counts as buffers and as PyTorch's cache. Until looks have named all weights and the
    whole KV cache, their sizes are those that the server reports.
    """
    serving, storages = moment.serving, _storages(moment, device)
    if serving is None or not storages:
        return ()
    sizes = {part.key: part.bytes for part in parts_of(device)}
    graphs, away = _graphs(moment, device), asleep(device)
    live = _by_category(device.layout, storages)
    live.subtract(away.live)
    named, kv_cache, counted = sum(map(live.__getitem__, OF_MODULES)), live[Category.KV_CACHE], device.statistics
    allocated, reserved = counted.allocated_bytes - away.live.total(), counted.reserved_bytes - away.bytes
    if away.bytes and device.bridge is not None:
        sizes["outside"] = max(0, (value_of(device.bridge.process_used_bytes) or 0) - reserved)
    rest = allocated - named - kv_cache - graphs.live_bytes
    unnamed = max(0, min(rest, rest - sum(live[category] for category in BUFFERS)))
    expected = 0 if away.bytes else serving.profile.weights_bytes or 0
    weights = max(named, min(named + unnamed, expected))
    unnamed -= weights - named
    of_cache = 0 if away.bytes else max(0, min(unnamed, (serving.cache.size_bytes or 0) - kv_cache))
    unnamed -= of_cache
    buffers = rest - unnamed - of_cache - (weights - named)
    quantised = min(weights, _bytes_of(storages, _is_quantised)) if serving.settings.quantization else 0
    apart = {key: _bytes_of(storages, partial(_is_of, names)) for key, names in BY_NAME.items()}
    if sum(apart.values()) > buffers:  # some of them lie in the pool of a graph
        apart = {}
    parts = [
        ServedPart("weights", weights - quantised, _dtypes(storages, without_quantised=bool(quantised))),
        ServedPart("quantised", quantised, _dtypes(filter(_is_quantised, storages))),
        ServedPart("lora", apart.get("lora", 0)),
        ServedPart("kv_cache", kv_cache + of_cache),
        ServedPart("masks", apart.get("masks", 0)),
        ServedPart("graphs", graphs.live_bytes + graphs.free_bytes),
        ServedPart("buffers", buffers - sum(apart.values())),
        ServedPart("unnamed", unnamed),
        ServedPart("cached", reserved - allocated - graphs.free_bytes),
        *(ServedPart(key, sizes.get(key, 0)) for key in _OUTER),
        *_free(sizes.get("free", 0), ServingProfile() if away.bytes else serving.profile),
    ]
    return tuple(part for part in parts if part.bytes)


@dataclass(frozen=True, slots=True)
class _Graphs:
    live_bytes: int
    """Without the blocks of `APART` categories."""
    free_bytes: int


def _storages(moment: TargetMoment, device: DeviceMoment) -> Sequence[Storage]:
    """The tensors of the device, from the moment's look, or the newest look that had time for tensors."""
    if device.layout is not None:
        return device.layout.storages
    inventory = moment.inventory
    return [storage for storage in inventory.storages if storage.device == device.index] if inventory else []


def _by_category(layout: DeviceLayout | None, storages: Sequence[Storage]) -> Counter[Category]:
    if layout is not None:
        return Counter(layout.by_category)
    return Counter(bytes_by_category((owner_of(storage), storage.size_bytes) for storage in storages))


def _graphs(moment: TargetMoment, device: DeviceMoment) -> _Graphs:
    """The memory of CUDA graphs: that of an engine's private pools, except those of a `MemPool`."""
    layout, allocator_map = device.layout, moment.look.map if moment.look else None
    if layout is None or allocator_map is None or (moment.serving and moment.serving.settings.enable_sleep_mode):
        return _Graphs(0, 0)
    private = allocator_map.private_pools
    pools = {pool.pool_id for pool in private if pool.device == device.index and pool.holder != MEM_POOL}
    live = free = 0
    for release in layout.release.segments:
        segment = release.segment
        if segment.pool_id not in pools:
            continue
        held = [block for block in segment.blocks if block.state is BlockState.ACTIVE_ALLOCATED]
        free += segment.size_bytes - sum(block.size_bytes for block in held)
        live += sum(block.size_bytes for block in held if category_of(layout, block) not in APART)
    return _Graphs(live, free)


def _is_quantised(storage: Storage) -> bool:
    return storage.category in WEIGHTS and storage.dtype.startswith(QUANTISED_TYPES)


def _is_of(names: Sequence[str], storage: Storage) -> bool:
    return storage.category in BUFFERS and any(name in storage.owner for name in names)


def _bytes_of(storages: Iterable[Storage], is_meant: Callable[[Storage], bool]) -> int:
    return sum(storage.size_bytes for storage in storages if is_meant(storage))


def _dtypes(storages: Iterable[Storage], *, without_quantised: bool = False) -> tuple[str, ...]:
    sizes: Counter[str] = Counter()
    for storage in storages:
        if storage.category in WEIGHTS and not (without_quantised and _is_quantised(storage)):
            sizes[storage.dtype] += storage.size_bytes
    return tuple(dtype for dtype, _ in sizes.most_common())


def _free(free_bytes: int, profile: ServingProfile) -> tuple[ServedPart, ...]:
    """The device's free memory: left over by gpu_memory_utilization, or kept by the server for activations."""
    if profile.free_before_bytes is None or profile.requested_bytes is None:
        return (ServedPart("free", free_bytes),)
    left = min(free_bytes, max(0, profile.free_before_bytes - profile.requested_bytes))
    return ServedPart("kept", free_bytes - left), ServedPart("left", left)
