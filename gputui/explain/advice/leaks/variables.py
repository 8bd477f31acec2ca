"""Which variables keep more and more tensors: containers that get longer, and single variables that keep ever more.

The length of a container is exact in every look that came to it, so its growth shows even if looks have time for only
a part of its tensors. The bytes are then an estimate from the elements that were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from gputui.explain.advice.leaks.counters import Growth
from gputui.explain.advice.leaks.growing import (
    GrowingVariable,
    Kept,
    addresses_on,
    bytes_on,
    inventory_of,
    kept_by,
    split,
)
from gputui.explain.advice.leaks.thresholds import (
    FEWEST_LOOKS,
    GROWTH_BYTES,
    GROWTH_TENSORS,
    LOOKS,
    LOOKS_OF_VARIABLES,
    SHARE_OF_GROWTH,
    STILL_RISES_SHARE,
)
from gputui.explain.advice.situation import Seen
from gputui.model.attached.owners import NOBODY, Keeper
from gputui.model.attached.tensors import OF_VARIABLES, Container, Storage
from gputui.protocol.owners import BELOW


def growing_variables(looks: Sequence[Seen], device: int, *, has_host: bool) -> list[GrowingVariable]:
    """The variables that keep more and more memory of the device, those that grew most first.

    `has_host`: after them, variables that fill host memory with autograd graphs.
    """
    growing = _together([_growing_container(run, device) for run in _growing_containers(looks)], looks, device)
    growing += _filling_containers(looks, device, {variable.name for variable in growing})
    containers = {variable.name for variable in growing}
    growing += [variable for variable in _single_variables(looks, device) if variable.name not in containers]
    growing = [v for v in growing if v.grown_bytes >= GROWTH_BYTES and (v.is_on_device or (has_host and v.graphs))]
    return sorted(growing, key=lambda variable: (not variable.is_on_device, -variable.grown_bytes))


def growing_with_counters(looks: Sequence[Seen], device: int, growth: Growth) -> list[GrowingVariable]:
    """Containers that got longer in a few looks and got most of the growth that the counters show.

    Of a program that is slow or busy, looks are rare, while its counters are read each second.
    """
    growing = _together(
        [_growing_container(run, device) for run in _growing_containers(looks, FEWEST_LOOKS)], looks, device
    )
    least = {v.name: SHARE_OF_GROWTH * growth.bytes_per_s * (v.last.time - v.first.time) for v in growing}
    growing = [v for v in growing if v.is_on_device and v.grown_bytes >= max(GROWTH_BYTES, least[v.name])]
    return sorted(growing, key=lambda variable: -variable.grown_bytes)


def in_one_look(look: Seen, name: str, device: int) -> GrowingVariable | None:
    """What the variable of this name keeps in one look, which does not tell whether it grows; None if nothing."""
    container = next((found for found in inventory_of(look).containers if found.name == name), None)
    if container is not None:
        return _growing_container([(look, container)], device)
    here = [storage for storage in inventory_of(look).storages if storage.device == device]
    own, saved = split(here, (f"{name}[",))
    by_itself = [storage for storage in here if storage.keeper is Keeper.NONE]
    saved += [storage for storage in by_itself if storage.kept_by.path == name]
    own += [s for s in by_itself if s.owner.path == name and s.kept_by.path != name]
    return _growing_variable(name, 0, own + saved, (look, look), device) if own or saved else None


def _together(growing: list[GrowingVariable], looks: Sequence[Seen], device: int) -> list[GrowingVariable]:
    """The growing containers; several inside one container become that one, as for a dictionary of lists."""
    for outer in inventory_of(looks[-1]).containers if len(growing) > 1 else ():
        inside = [v for v in growing if v.container is not None and v.name.startswith(f"{outer.name}[")]
        if "[" in outer.name or len(inside) < 2:
            continue
        largest = max(inside, key=lambda variable: variable.grown_bytes)
        whole = _growing_container([(largest.first, outer), (largest.last, outer)], device)
        assert largest.container is not None
        elements = sum(v.container.elements for v in inside if v.container is not None)
        whole = replace(
            whole,
            kept=Kept.together([variable.kept for variable in inside]),
            grown_bytes=sum(variable.grown_bytes for variable in inside),
            container=replace(outer, type=largest.container.type, elements=elements),
            first_elements=sum(variable.first_elements for variable in inside),
            graphs=sum(variable.graphs for variable in inside),
            lists=len(inside),
        )
        growing = [whole, *(variable for variable in growing if variable not in inside)]
    return growing


def _filling_containers(looks: Sequence[Seen], device: int, growing: Collection[str]) -> list[GrowingVariable]:
    """Containers that get no longer but whose elements keep more and more: `sessions[user].past`."""
    if len(looks) < LOOKS_OF_VARIABLES:
        return []
    filling = []
    for container in inventory_of(looks[-1]).containers:
        inside = (f"{container.name}[", f"{container.name}.")
        if "[" in container.name or any(name == container.name or name.startswith(inside) for name in growing):
            continue
        if _bytes_below(looks[-1], container.name, device) < GROWTH_BYTES:
            continue
        sizes = [_bytes_below(look, container.name, device) for look in looks]
        rising = _rising(looks, sizes)
        if len(rising) >= max(LOOKS_OF_VARIABLES, len(looks) // 2):
            run = [(looks[number], container) for number in (rising[0], rising[-1])]
            grown = _growing_container(run, device)
            filling.append(replace(grown, grown_bytes=sizes[rising[-1]] - sizes[rising[0]]))
    return filling


def _bytes_below(look: Seen, name: str, device: int) -> int:
    """The bytes on a device that the elements of the container of this name keep."""
    own, saved = split(inventory_of(look).storages, (f"{name}[",))
    return bytes_on(device, own + saved)


_Run = list[tuple[Seen, Container]]
"""Looks at one container, oldest first, each with the container as it was then."""


def _growing_containers(looks: Sequence[Seen], at_least: int = LOOKS) -> list[_Run]:
    by_ident: dict[int, _Run] = defaultdict(list)
    by_name: dict[str, _Run] = defaultdict(list)
    for look in looks:
        for container in inventory_of(look).containers:
            by_ident[container.ident].append((look, container))
            by_name[container.name].append((look, container))
    runs = [_since_shortest(run) for run in by_ident.values()]
    growing = [run for run in runs if _grows(run, at_least)]
    names = {container.name for run in growing for _, container in run}
    replaced = [_since_shortest(run) for name, run in by_name.items() if name not in names]
    return growing + [run for run in replaced if _grows(run, at_least)]


def _since_shortest(run: _Run) -> _Run:
    """The looks since the container last got shorter, as a list that is emptied at the end of an epoch does."""
    start = 0
    for number in range(1, len(run)):
        if run[number][1].elements < run[number - 1][1].elements:
            start = number
    return run[start:]


def _grows(run: _Run, at_least: int) -> bool:
    """Whether a container was in so many looks, and got longer in half of them and in the last third.

    A container that was filled and then stays is no leak.
    """
    lengths = [container.elements for _, container in run]
    rises = sum(later > earlier for earlier, later in pairwise(lengths))
    is_longer = 0 <= lengths[0] <= lengths[-1] - GROWTH_TENSORS
    is_filled = len(run) >= LOOKS and lengths[-1 - len(run) // 3] == lengths[-1]
    return len(run) >= at_least and is_longer and not is_filled and 2 * rises >= len(run) - 1


def _growing_container(run: _Run, device: int) -> GrowingVariable:
    (first, before), (last, now) = run[0], run[-1]
    names = {container.name for _, container in run}
    graphs = round(now.elements * now.graphs / now.read) if now.read else 0
    kept = kept_by(last, names, device, now, graphs)
    share = (now.elements - before.elements) / max(1, now.elements)  # a false probe or file may say 0
    is_on_device = kept.device_bytes >= min(GROWTH_BYTES, kept.freed_on_host_bytes)
    grown = kept.device_bytes if is_on_device else kept.freed_on_host_bytes
    named = min((container for _, container in run), key=lambda container: (not container.where, len(container.name)))
    return GrowingVariable(
        name=named.name,
        place=now.grown_at or now.held_by or named.where,
        first=first,
        last=last,
        kept=kept,
        grown_bytes=int(grown * share),
        container=now,
        first_elements=before.elements,
        graphs=graphs,
    )


def _single_variables(looks: Sequence[Seen], device: int) -> list[GrowingVariable]:
    """Growing single variables: a tensor made longer and longer, a sum whose graph keeps each step, a tree or chain."""
    if len(looks) < LOOKS_OF_VARIABLES:
        return []
    newest = _by_variable(inventory_of(looks[-1]).storages, device)
    large = {name for name, storages in newest.items() if bytes_on(device, storages) >= GROWTH_BYTES}
    by_variable = [_by_variable(inventory_of(look).storages, device) for look in looks] if large else []
    growing = []
    for name in large:
        sizes = [bytes_on(device, storages.get(name, ())) for storages in by_variable]
        rising = _rising(looks, sizes)
        if len(rising) >= max(LOOKS_OF_VARIABLES, len(looks) // 2):
            first, last = rising[0], rising[-1]
            grown_bytes = sizes[last] - sizes[first]
            storages = by_variable[last][name]
            growing.append(_growing_variable(name, grown_bytes, storages, (looks[first], looks[last]), device))
    return growing


def suspected_variables(looks: Sequence[Seen], device: int) -> list[GrowingVariable]:
    """Single variables that may be what grows, if it is certain that something does; those that grew most first.

    They need not grow in every look: a large graph is rarely walked as a whole, so a look may find less of it.
    """
    by_variable = [_by_variable(inventory_of(look).storages, device) for look in looks]
    suspects = []
    for name in by_variable[-1] if len(looks) >= LOOKS else ():
        sizes = [bytes_on(device, storages.get(name, ())) for storages in by_variable]
        if sizes[-1] - sizes[0] >= GROWTH_BYTES and _still_rises(sizes):
            storages = by_variable[-1][name]
            suspects.append(_growing_variable(name, sizes[-1] - sizes[0], storages, (looks[0], looks[-1]), device))
    return sorted(suspects, key=lambda variable: -variable.grown_bytes)


def _still_rises(sizes: Sequence[int]) -> bool:
    """Whether the last third lies above the first and well above the middle: what a loop begins with stays equal."""
    third = len(sizes) // 3
    first, middle, last = max(sizes[:third]), max(sizes[third:-third]), max(sizes[-third:])
    return min(sizes[-third:]) > first and last - middle >= STILL_RISES_SHARE * (last - first)


def _rising(looks: Sequence[Seen], sizes: Sequence[int]) -> list[int]:
    """The numbers of the looks that found more than all before them; [] if a complete look did not find more.

    An incomplete look may find less although the variable keeps more.
    """
    rising = [0]
    for number in range(1, len(looks)):
        if sizes[number] > sizes[rising[-1]]:
            rising.append(number)
        elif looks[number].is_complete:
            return []
    return rising


def _growing_variable(
    name: str, grown_bytes: int, storages: list[Storage], looks: tuple[Seen, Seen], device: int
) -> GrowingVariable:
    saved = [storage for storage in storages if storage.kept_by]
    own = [storage for storage in storages if not storage.kept_by]
    name_of_one = next((s.kept_by for s in saved), None) or own[0].owner
    return GrowingVariable(
        name=name,
        place=name_of_one.place,
        first=looks[0],
        last=looks[1],
        kept=Kept(
            own_bytes=bytes_on(device, own),
            graph_bytes=bytes_on(device, saved),
            shapes=frozenset(storage.shape for storage in own),
            hidden_bytes=sum(s.hidden_bytes for s in own),
            addresses=addresses_on(device, storages),
            is_exact=looks[1].is_complete,
        ),
        grown_bytes=grown_bytes,
        graphs=1 if saved else 0,
    )


def _by_variable(storages: Iterable[Storage], device: int) -> dict[str, list[Storage]]:
    """The storages of single variables that can grow, by the variable's path without its place."""
    by_variable: dict[str, list[Storage]] = defaultdict(list)
    for storage in storages:
        if storage.device != device or storage.category not in OF_VARIABLES:
            continue
        if storage.keeper is not Keeper.NONE:
            continue
        name = _linked((storage.kept_by or (NOBODY if storage.saved_by else storage.owner)).path)
        if name and ("[" not in name or name.endswith(("']", BELOW))) and " " not in name:
            by_variable[name].append(storage)
    return by_variable


def _linked(path: str) -> str:
    """The path of the tree or chain that a tensor is in, `last[...]` of `last[...].hidden`; other paths as they are."""
    first, below, _ = path.partition(BELOW)
    return f"{first}{below}"
