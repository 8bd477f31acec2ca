"""Hand-made moments: maps and tensors go through the same code as those of a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from zlib import crc32

from gputui.explain.advice import findings
from gputui.explain.moment.probe_state import ProbeState, layouts_of, moment_of
from gputui.model.attached.allocator import Segment
from gputui.model.attached.analysis import DriverFacts, Finding
from gputui.model.attached.moment import HostMoment, TargetMoment
from gputui.model.attached.owners import Keeper
from gputui.model.attached.target import Cost, Greeting, Look, Mark, TorchDevice
from gputui.model.attached.tensors import Category, Container, Inventory, Storage
from gputui.model.attached.timeline import Timeline
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment, statistics
from tests.explain.named import named

GREETING = Greeting(7, "python train.py", "3.12.3", "2.11.0", None, None, True, (TorchDevice(0, "GPU-0"),))


@dataclass(frozen=True)
class Tensor:
    """A live tensor with `mib` of device memory and an owner; None for a block that looks have not come to."""

    mib: float
    owner: str | None
    category: Category = Category.ACTIVATION
    saved_by: str = ""
    dtype: str = "float32"
    keeper: Keeper = Keeper.NONE
    kept_by: str = ""
    first: int = 0
    """The first of two dimensions, 0 where it has one."""
    shown_mib: float = 0
    """What its tensors show of it, where that is a small part."""
    is_scalar: bool = False


def row(*tensors: Tensor, free: float = 0, address: int = BASE) -> tuple[Segment, list[Storage]]:
    """A segment with these tensors in a row, then `free` MiB."""
    blocks = [("live", tensor.mib) for tensor in tensors] + ([("free", free)] if free else [])
    made, storages, at = segment(*blocks, address=address), [], address
    for tensor in tensors:
        size = int(tensor.mib * MIB)
        at += size
        if tensor.owner is None:
            continue
        count = size // (4 if tensor.dtype == "float32" else 2)
        storages.append(
            Storage(
                device=0, address=at - size, size_bytes=size, category=tensor.category, owner=named(tensor.owner),
                type="Tensor",
                shape=() if tensor.is_scalar else (tensor.first, count // tensor.first) if tensor.first else (count,),
                dtype=tensor.dtype,
                saved_by=tensor.saved_by,
                keeper=tensor.keeper, kept_by=named(tensor.kept_by),
                views=((0, int(tensor.shown_mib * MIB)),) if tensor.shown_mib else (),
            )
        )  # fmt: skip
    return made, storages


def containers_of(storages: list[Storage]) -> tuple[Container, ...]:
    """The lists that the names of these storages speak of, as complete looks describe them."""
    elements: dict[str, set[str]] = {}
    graphs: dict[str, set[str]] = {}
    wheres = {}
    for storage in storages:
        for label, found in ((storage.owner, elements), (storage.kept_by, graphs)):
            path, _, where = label.partition(" (")
            name, _, key = path.partition("[")
            if key:
                found.setdefault(name, set()).add(key.partition("]")[0])
                wheres[name] = where.removesuffix(")")
    return tuple(
        Container(
            ident=crc32(name.encode()), name=name, where=wheres[name], held_by="", type="list", elements=len(keys),
            read=len(keys), graphs=len(graphs.get(name, ())),
        )
        for name, keys in elements.items()
    )  # fmt: skip


def moment(
    *parts: Segment | tuple[Segment, list[Storage]],
    time: float = 100.0,
    used_mib: float | None = None,
    others_mib: float = 0,
    total_mib: float = 80 * 1024,
    world_size: int | None = None,
    marks: tuple[Mark, ...] = (),
    keywords: dict | None = None,
    containers: tuple[Container, ...] | None = None,
    is_complete: bool = True,
    looked_at: float | None = None,
    **counters: int,
) -> TargetMoment:
    """A moment with a look of the same time, or of `looked_at`.

    `used_mib` is what NVML reports for the process (None: nothing).
    """
    segments = [part if isinstance(part, Segment) else part[0] for part in parts]
    storages = [storage for part in parts if not isinstance(part, Segment) for storage in part[1]]
    made = layout(*segments, **keywords or {})
    counted = statistics(made, **{"generation": int(time * 1000)} | counters)
    inventory = Inventory(
        tuple(storages), "walk", is_of_one_moment=True, is_complete=is_complete,
        containers=containers_of(storages) if containers is None else containers,
    )  # fmt: skip
    then = counted if looked_at is None else statistics(made, generation=int(looked_at * 1000))
    look = Look(looked_at or time, (then,), made.settings, made, inventory, Cost(1, 1))
    state = ProbeState(replace(GREETING, world_size=world_size), (counted,), look, layouts_of(look), marks)
    drivers = {}
    if used_mib is not None:
        used, device_used = int(used_mib * MIB), int((used_mib + others_mib) * MIB)
        total = int(total_mib * MIB)
        drivers[0] = DriverFacts(0, total, device_used, used, total - device_used)
    return moment_of(time, state, drivers, HostMoment())


@dataclass(frozen=True)
class Story:
    """Moments, of which the last is the one to explain."""

    moments: tuple[TargetMoment, ...]

    def findings(self) -> dict[str, Finding]:
        timeline = Timeline(*sorted(self.moments, key=lambda one: one.time))
        return {finding.kind: finding for finding in findings(self.moments[-1], 0, timeline)}


def story(*moments: TargetMoment) -> Story:
    return Story(moments)


def key_value_cache(mib: float, shape: tuple[int, ...]) -> TargetMoment:
    """Two layers of keys and values, each with these MiB and this shape."""
    names = [f"past_key_values.layers[{layer}].{kind}" for layer in range(2) for kind in ("keys", "values")]
    return key_value_tensors(names, mib, shape)


def key_value_tensors(names: Sequence[str], mib: float, *shapes: tuple[int, ...]) -> TargetMoment:
    """Tensors of a cache with these names, each with these MiB; one shape for all of them or one for each."""
    made, storages = row(*(Tensor(mib, name, Category.KV_CACHE) for name in names))
    return moment((made, [replace(storage, shape=shape) for storage, shape in zip(storages, cycle(shapes))]))


def text_of(finding: Finding) -> str:
    """All sentences of a finding."""
    return " ".join((finding.title, *finding.evidence, finding.remedy))
