"""Who holds the memory of a device: variables, models, optimizers, PyTorch's cache and so on, each with its bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputui.explain.memory.need import need_of
from gputui.explain.memory.parts import CACHE_SINCE, TENSORS_SINCE, parts_of
from gputui.explain.owners.names import counted, exceptions_words, family
from gputui.model.attached.analysis import Owner
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.owners import NOBODY, Keeper, OwnerKind, OwnerName
from gputui.model.attached.tensors import CATEGORIES, COMES_AND_GOES, OF_MODELS, OF_VARIABLES, Category, Container
from gputui.model.reading import value_of
from gputui.units import format_bytes

HolderKey = tuple[str, str]

_INDEX = re.compile(r"\[")
_LAYER = re.compile(r"[\[.]\d+(?=[\].]|$)")
_LAST_INDICES = re.compile(r"(\[[^\]]*\])+$")
CYCLES = "reference cycles alone"
"""The holder of memory that waits for a garbage collection."""

FIRST_TO_GO = (
    *("activation", "newer", "unattributed", "line", "other", *(category.value for category in COMES_AND_GOES)),
    *("variable", "gradient", "workspace", "keeper", "container", "optimizer"),
    *(category.value for category in reversed(CATEGORIES)),
)
"""Kinds of holders, in the order in which their memory is likely to be freed."""
SO_FAR = "blocks not named yet"
SINCE_LOOK = "tensors newer than the last look"
CACHE = "free in its cache"
TAKEN_SHARE = 0.05
"""Of the cache: if each step takes a smaller part of it, that is not worth words."""
MODELS = 3
"""From this many elements on, a list of models is one holder: fewer are, say, a generator and a discriminator."""
OUTSIDE = "outside PyTorch (CUDA context, libraries)"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds memory, how much, and what that consists of (`keeps`); `place` is a line of the program or ""."""

    key: HolderKey
    name: str
    bytes: int
    keeps: str = ""
    place: str = ""
    addresses: tuple[int, ...] = ()
    elements: int = 0
    """How many elements it has if it is a container."""
    read_elements: int = 0
    """In how many of its elements the look has found memory."""
    graph: str = ""
    """The part of `keeps` that is about autograd graphs."""

    @property
    def label(self) -> str:
        """The name with its line."""
        return f"{self.name} ({self.place})" if self.place else self.name


@dataclass
class _Group:
    name: str
    place: str = ""
    bytes: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    own_bytes: int = 0
    members: set[str] = field(default_factory=set)
    kept: Counter[str] = field(default_factory=Counter)
    exceptions: set[OwnerName] = field(default_factory=set)
    elements: set[str] = field(default_factory=set)


def holders_of(layout: DeviceLayout, containers: Iterable[Container] = ()) -> tuple[Holder, ...]:
    """Who holds the live blocks of a look, the largest holder first; all holders add up to the allocated bytes."""
    by_name = {container.name: container for container in containers}
    groups: dict[HolderKey, _Group] = {}
    for blocker in layout.blockers:
        owner, block = blocker.owner, blocker.block
        key, name = _holder_of(owner, by_name)
        if key[0] == Category.UNATTRIBUTED.value and not layout.is_searched:
            name = SO_FAR
        group = groups.setdefault(key, _Group(name))
        group.bytes += block.size_bytes
        group.blocks.append((block.size_bytes, block.address))
        _describe(group, owner, block.size_bytes)
    holders = [_holder(key, group, by_name) for key, group in groups.items()]
    return tuple(sorted(holders, key=lambda holder: (-holder.bytes, holder.name)))


def device_holders(device: DeviceMoment, of_look: Sequence[Holder]) -> tuple[Holder, ...]:
    """The holders of all that a process has on a device now, the largest first; `of_look`: those of the newest look."""
    sizes = {part.key: part.bytes for part in parts_of(device)}
    cached = device.statistics.reserved_bytes - device.statistics.allocated_bytes
    stuck = device.layout.release.stuck_bytes if device.layout and not sizes.get(CACHE_SINCE) else 0
    holders = list(of_look)
    newer = sizes.get(TENSORS_SINCE, 0)
    if newer < 0:
        holders = _without(holders, -newer)
    if device.layout is None:
        holders.append(Holder(("live", ""), "tensors that were not looked at yet", device.statistics.allocated_bytes))
    elif newer > 0:
        in_look = next((holder for holder in holders if holder.name == SINCE_LOOK), None)
        holders = [holder for holder in holders if holder is not in_look]
        size_bytes = newer + (in_look.bytes if in_look else 0)
        holders.append(Holder((Category.NEWER.value, ""), SINCE_LOOK, size_bytes))
    holders.append(Holder(("cache", ""), CACHE, cached, _cache_words(device, cached, stuck)))
    outside = value_of(device.bridge.outside_torch_bytes) if device.bridge else None
    holders.append(Holder(("outside", ""), OUTSIDE, outside or 0))
    return tuple(sorted((holder for holder in holders if holder.bytes > 0), key=lambda holder: -holder.bytes))


def _cache_words(device: DeviceMoment, cached: int, stuck: int) -> str:
    """How much of the cache each step takes back, and how much is stuck in it, in words."""
    need = need_of(device)
    taken = min(cached, max(0, need.highest_bytes - device.statistics.allocated_bytes)) if need else 0
    words = []
    if taken > TAKEN_SHARE * cached:
        words.append(f"each step needs {_part_words(taken, cached)}" if need and need.step_s else "")
    if stuck:
        words.append(f"{_part_words(stuck, cached)} is stuck beside live blocks")
    return ", ".join(filter(None, words))


def _part_words(part_bytes: int, whole_bytes: int) -> str:
    return f"{'all' if part_bytes == whole_bytes else format_bytes(part_bytes)} of it"


def _without(holders: Sequence[Holder], freed_bytes: int) -> list[Holder]:
    """The holders without what was freed since the look, which is taken first from holders that come and go."""
    kept, owed = [], freed_bytes
    for holder in sorted(holders, key=_staying):
        taken = min(owed, holder.bytes)
        owed -= taken
        kept.append(replace(holder, bytes=holder.bytes - taken))
    return kept


def _staying(holder: Holder) -> tuple[int, int]:
    """A sort key: holders whose memory is likely to be freed first; of one kind, the larger ones first."""
    kind = "container" if holder.elements else holder.key[0]
    return FIRST_TO_GO.index(kind) if kind in FIRST_TO_GO else len(FIRST_TO_GO), -holder.bytes


def variable_of(name: OwnerName, containers: Mapping[str, Container]) -> str:
    """The variable in an owner's name, `losses` for `losses[3] (train.py:23)`; the outermost known container if any."""
    path = name.path
    for cut in _INDEX.finditer(path):
        if path[: cut.start()] in containers:
            return path[: cut.start()]
    return family(_LAST_INDICES.sub("", path))


def _holder_of(owner: Owner, containers: Mapping[str, Container]) -> tuple[HolderKey, str]:
    """The key and the name of a block's holder."""
    category = owner.category
    if owner.keeper is not Keeper.NONE:
        return _keeper_of(owner)
    if category in OF_MODELS:
        return _model_of(owner, containers)
    if category is Category.KV_CACHE and (caches := _container_of_caches(owner, containers)):
        return ("variable", caches), caches
    named = owner.kept_by or (NOBODY if owner.saved_by else owner.name)
    if named.kind is OwnerKind.UNNAMED and category is Category.OTHER:
        named, category = NOBODY, Category.UNATTRIBUTED
    if named and category is Category.UNATTRIBUTED:
        return ("line", named), f"blocks allocated at {named}"
    if named and category in OF_VARIABLES:
        name = variable_of(named, containers)
        return ("variable", name), name
    return (category.value, ""), CATEGORIES[category].holder or CATEGORIES[category].plural


def _model_of(owner: Owner, containers: Mapping[str, Container]) -> tuple[HolderKey, str]:
    """The key and the name of the holder of a part of a model or optimizer."""
    models = _container_of_models(owner, containers)
    if models:
        return ("variable", models), models
    if owner.category is Category.OPTIMIZER_STATE:
        name = owner.name.state.optimizer or "an optimizer"
        return (owner.category.value, name), f"the states of {name}"
    root = owner.name.root or "a model"
    return (owner.category.value, root), f"the {CATEGORIES[owner.category].plural} of {root}"


def _container_of_models(owner: Owner, containers: Mapping[str, Container]) -> str:
    """The container, in this part's path, of models, or of objects that have models and optimizers; or ""."""
    path = owner.name.start if owner.category is Category.OPTIMIZER_STATE else owner.name.path
    paths = (path[: cut.start()] for cut in _INDEX.finditer(path))
    return next((name for name in paths if name in containers and containers[name].elements >= MODELS), "")


def _container_of_caches(owner: Owner, containers: Mapping[str, Container]) -> str:
    """The container with a KV cache in each element, such as the sessions of a server; or "".

    A list with one layer of a cache in each element is no such container: it is one cache.
    """
    path = owner.name.layer_of_cache
    for cut in _INDEX.finditer(path):
        element = path.find("]", cut.end())
        if path[: cut.start()] in containers and _LAYER.search(path[element + 1 :]):
            return path[: cut.start()]
    return ""


def _keeper_of(owner: Owner) -> tuple[HolderKey, str]:
    """The key and the name of the holder of a block that no variable of the program leads to."""
    if owner.keeper in (Keeper.NOTEBOOK_OUTPUT, Keeper.INTERPRETER_OUTPUT):
        name = owner.name.output[0] or owner.keeper.facts.words
        return ("variable", name), name
    if owner.keeper is Keeper.OPTIMIZER:
        optimizer = owner.name.state.optimizer or "an optimizer"
        name = f"{optimizer}, for a model that was replaced"
        return ("optimizer", name), name
    if owner.keeper is Keeper.CYCLE:
        return ("keeper", owner.keeper.value), CYCLES
    if owner.keeper.facts.evidence:
        return (owner.keeper.value, owner.name), owner.name
    return ("keeper", owner.keeper.value), owner.keeper.facts.words


def _describe(group: _Group, owner: Owner, size_bytes: int) -> None:
    name = owner.kept_by or owner.name
    group.place = group.place or name.place
    if name.path.startswith(f"{group.name}["):
        group.elements.add(name.path[len(group.name) + 1 : name.path.find("]", len(group.name))])
    if owner.saved_by:
        group.operations[owner.saved_by] += 1
        group.members.add(owner.kept_by)
    else:
        group.own_bytes += size_bytes
    if owner.keeper is Keeper.CYCLE:
        group.kept[owner.name] += size_bytes
    elif owner.keeper not in (Keeper.NONE, Keeper.OPTIMIZER) and not owner.keeper.facts.evidence:
        group.kept[str(name.without_exception())] += size_bytes
        if name.exception:
            group.exceptions.add(name)


def _holder(key: HolderKey, group: _Group, containers: Mapping[str, Container]) -> Holder:
    container = containers.get(group.name)
    name, graph = group.name, ""
    if name == CYCLES:
        keeps, where = group.kept.most_common(1)[0][0], ""
    elif key[0] == "keeper":
        name = exceptions_words(group.exceptions) or name
        local = group.kept.most_common(1)[0][0]
        others = " and other locals" if group.exceptions else " and others"
        keeps, where = f"keeps {local}{others if len(group.kept) > 1 else ''}", ""
    else:
        graph = _graph(group, container) if key[0] == "variable" and group.operations else ""
        counts = [counted(container.elements, "element")] if container and key[0] == "variable" else []
        saved = "saved for the backward pass" if group.operations and key[0] != "variable" else ""
        keeps = saved or ", ".join([*counts, *([graph] if graph else [])])
        where = (container.grown_at or container.held_by or container.where) if container else ""
    addresses = tuple(address for _, address in sorted(group.blocks, reverse=True))
    is_variable = key[0] == "variable"
    shown_at = (where or group.place) if is_variable else ""
    elements = (container.elements, len(group.elements)) if container else (0, 0)
    return Holder(key, name, group.bytes, keeps, shown_at, addresses, *elements, graph)


def _graph(group: _Group, container: Container | None) -> str:
    """ "keeps 160 graphs of AddmmBackward0: 20.0 GiB"."""
    ((operation, count),) = group.operations.most_common(1)
    what = f"a graph with {count:,} x {operation}" if count > 1 else f"the graph of {operation}"
    if container and container.graphs > 1:
        what = f"{container.graphs:,} graphs of {operation}"
    return f"keeps {what}: {format_bytes(group.bytes - group.own_bytes)}"
