"""Which requests depend on the batch, told from a trace alone.

Parameters, gradients, optimizer states and workspaces keep their sizes: these "fixed" sizes are the sizes of
allocations that are never freed in the trace and that steps do not make again. An activation can have a fixed size by
chance; then its lifetime decides. A gradient outlives the activations that are alive when it is made, and in the
optimizer there are hardly any; an activation is freed before activations that were made earlier. A result of an
operation lives until another operation has made something of it. So a size is taken for a workspace, such as a
convolution's for one sample, if no allocation of the size lives while something varying is made and one of them is
freed at once. Copies of weights in half precision keep their sizes, too: a gradient of the same size shows them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType

from gputui.explain.whatif.trace.operations import FOREVER, Operations, lifetimes
from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import Category

SMALLEST_SCALED_BYTES = 4096
"""Smaller requests (losses, counters, norms) are not scaled: they do not matter."""
WORKSPACES_BYTES = (8_519_680, 33_554_432, 1 << 20)
"""cuBLAS's workspaces (before and on compute capability 9.0) and cuBLASLt's, which PyTorch's allocator holds."""
FEW = 0.05
"""The share of the most activations alive at a time that may outlive an activation, such as outputs that are kept."""
FEWEST_INPUTS = 16
"""A weight is at least this many times as large as its bias."""
SAME_BEFORE = 8
"""Requests of two steps correspond if they and this many requests before each have the same sizes."""


OF_A_STEP = {Category.ACTIVATION, Category.KV_CACHE}


def varying(operations: Operations, owners: Mapping[int, Owner] = MappingProxyType({})) -> bytes:
    """For each allocation 1 if its size is in proportion to the batch, else 0.

    `owners` are those of the blocks at the end, by address: they tell activations of an unfinished step from
    allocations that stay, where no step before had such sizes.
    """
    passing = _passing(operations, owners)
    births, deaths = lifetimes(operations)
    all_sizes = operations.sizes_bytes
    at_once = [birth >= 0 and death == birth + 1 for birth, death in zip(births, deaths, strict=True)]
    kept = [n for n, size in enumerate(all_sizes) if size not in WORKSPACES_BYTES or not at_once[n]]
    sizes = array("Q", map(all_sizes.__getitem__, kept))
    flags = _flags(*_places(births, deaths, kept), sizes, [n in passing for n in kept])
    varies = bytearray(len(all_sizes))
    for number, flag in zip(kept, flags, strict=True):
        varies[number] = flag
    return bytes(varies)


def _passing(operations: Operations, owners: Mapping[int, Owner]) -> set[int]:
    """The trace's allocations that are alive at its end and belong to an unfinished step, according to their owner.

    Where a request has failed, unattributed ones are included: gradients within the backward pass.
    """
    of_a_step = OF_A_STEP | ({Category.UNATTRIBUTED} if operations.failure_at_end >= 0 else set())
    at_end = dict(zip(operations.addresses, count()))  # the newest at an address
    return {at_end[a] for a, owner in owners.items() if owner.category in of_a_step and a in at_end} - {
        *range(operations.earlier)
    }


def _places(births: array[int], deaths: array[int], kept: Sequence[int]) -> tuple[array[int], array[int], int]:
    """The places at which each of `kept` is made and freed, counting only operations on `kept`, and how many there are.

    So cuBLAS's workspaces do not count, of which PyTorch 2.15 takes one for each multiplication.
    """
    places = sorted(
        {births[n] for n in kept if births[n] >= 0} | {deaths[n] for n in kept if deaths[n] != FOREVER}
    )  # fmt: skip
    new = {place: position for position, place in enumerate(places)} | {-1: -1, FOREVER: FOREVER}
    return array("q", [new[births[n]] for n in kept]), array("q", [new[deaths[n]] for n in kept]), len(places)


def _flags(births: array[int], deaths: array[int], end: int, sizes: array[int], passing: Sequence[bool]) -> bytearray:
    """The flags of `varying` for these allocations alone, whose births and deaths are places below `end`."""
    renewed = _renewed(births, deaths, sizes, end)
    known = zip(deaths, renewed, passing, strict=True)
    stays = [death == FOREVER and not is_new and not is_passing for death, is_new, is_passing in known]
    fixed = {size for size, is_lasting in zip(sizes, stays, strict=True) if is_lasting}
    fixed.update(WORKSPACES_BYTES)
    varies = bytearray(size >= SMALLEST_SCALED_BYTES and size not in fixed for size in sizes)
    workspaces = _workspaces(births, deaths, varies, sizes, fixed)
    for number in workspaces:
        varies[number] = 0
    casts = _casts(births, deaths, sizes, fixed)
    for number in casts:
        varies[number] = 0
    most_alive = _most_alive(births, deaths, varies)
    for number in _look_like_activations(births, deaths, varies, sizes, FEW * most_alive):
        varies[number] = number not in workspaces and number not in casts
    _as_a_step_earlier(varies, renewed, deaths, sizes, fixed)
    return varies


def _renewed(births: array[int], deaths: array[int], sizes: array[int], end: int) -> bytes:
    """For each allocation 1 if it is alive at the end, and one of its size that was freed lived at least as long.

    Such are a batch, or activations where the trace ends between forward and backward.
    """
    longest: dict[int, int] = {}
    for birth, death, size in zip(births, deaths, sizes, strict=True):
        if death != FOREVER:  # an allocation from before the trace may have lived for the whole of it
            longest[size] = max(longest.get(size, 0), death - birth if birth >= 0 else end)
    return bytes(
        death == FOREVER and birth >= 0 and longest.get(size, 0) >= end - birth
        for birth, death, size in zip(births, deaths, sizes, strict=True)
    )


def _as_a_step_earlier(
    varies: bytearray, renewed: bytes, deaths: array[int], sizes: array[int], fixed: set[int]
) -> None:
    """Copy the flag of the corresponding request of the step before to renewed allocations of a fixed size."""
    freed: dict[tuple[int, ...], int] = {}
    for number, size in enumerate(sizes):
        if size in fixed and size >= SMALLEST_SCALED_BYTES:
            asked = tuple(sizes[max(0, number - SAME_BEFORE) : number + 1])
            if deaths[number] != FOREVER:
                freed[asked] = number
            elif renewed[number] and asked in freed:
                varies[number] = varies[freed[asked]]


def _workspaces(
    births: array[int], deaths: array[int], varies: bytearray, sizes: array[int], fixed: set[int]
) -> set[int]:
    """Allocations that are quiet: nothing varying is made while they live, as holds for all of their size.

    At least one of the size must be freed at once. In a backward pass a convolution's workspace may lie around the
    gradients of weight and bias, from right before the first to right after the last. Others of its size may be
    activations by chance: only the workspace must be quiet, and those of its size that are freed at once.
    """
    made = sorted(birth for birth, flag in zip(births, varies, strict=True) if flag)
    lives = [death - birth if birth >= 0 else FOREVER for birth, death in zip(births, deaths, strict=True)]
    quiet = [bisect_left(made, d) == bisect_right(made, b) for b, d in zip(births, deaths, strict=True)]
    columns = list(zip(sizes, lives, quiet, strict=True))
    at_once = {size for size, life, _ in columns if life == 1 and size >= SMALLEST_SCALED_BYTES}
    at_once -= {size for size, _, is_quiet in columns if not is_quiet and size not in fixed}
    weights = {birth: death for birth, death, size in zip(births, deaths, sizes, strict=True) if size in fixed}
    around = {
        number
        for number, (birth, death, is_quiet) in enumerate(zip(births, deaths, quiet, strict=True))
        if varies[number] and is_quiet and birth >= 0 and birth + 1 in weights and weights.get(death - 1, 0) > death
    }
    by_chance = {sizes[number] for number in around}
    return around | {
        number
        for number, (size, life, is_quiet) in enumerate(columns)
        if is_quiet and (size in at_once or (life == 1 and size in by_chance))
    }


def _casts(births: array[int], deaths: array[int], sizes: array[int], fixed: set[int]) -> set[int]:
    """Copies of weights and gradients in half precision, as `torch.autocast` makes them.

    Such a gradient is freed right after the gradient in single precision, of twice the size, was made from it. There
    is one gradient for each copy; where more allocations have the size, some are activations by chance, and only those
    that follow right after the copy of their bias count as copies.
    """
    born = dict(zip(births, sizes, strict=True))
    gradients: dict[int, list[int]] = {}
    candidates: dict[int, list[int]] = {}
    for number, (death, size) in enumerate(zip(deaths, sizes, strict=True)):
        if death != FOREVER and size >= SMALLEST_SCALED_BYTES and 2 * size in fixed:
            kind = gradients if born.get(death - 1) == 2 * size else candidates
            kind.setdefault(size, []).append(number)
    found = {number for numbers in gradients.values() for number in numbers}
    for size in gradients.keys() & candidates.keys():
        made, numbers = gradients[size], candidates[size]
        before = sum(number < made[-1] for number in numbers)  # the trace may end between forward and backward
        after = sum(number > numbers[0] for number in made)
        found.update(n for n in numbers if before <= after or _is_after_its_bias(births[n], size, born, fixed))
    return found


def _is_after_its_bias(birth: int, size: int, born: Mapping[int, int], fixed: set[int]) -> bool:
    before = born.get(birth - 1, size)
    return FEWEST_INPUTS * before <= size and 2 * before in fixed


def _most_alive(births: array[int], deaths: array[int], varies: bytearray) -> int:
    """How many varying allocations are alive at the most."""
    events = sorted(
        [(place, 1) for place, flag in zip(births, varies, strict=True) if flag]
        + [(place, -1) for place, flag in zip(deaths, varies, strict=True) if flag]
    )
    alive = most = 0
    for _, change in events:
        alive += change
        most = max(most, alive)
    return most


def _look_like_activations(
    births: array[int], deaths: array[int], varies: bytearray, sizes: array[int], few: float
) -> list[int]:
    """Allocations of a fixed size that are freed before more than `few` of the varying ones alive at their birth."""
    found: list[int] = []
    alive: list[int] = []  # when the varying allocations that are alive now are freed, in order
    for number in sorted(range(len(births)), key=births.__getitem__):
        birth, death = births[number], deaths[number]
        del alive[: bisect_right(alive, birth)]
        if varies[number]:
            insort(alive, death)
        elif sizes[number] >= SMALLEST_SCALED_BYTES and len(alive) - bisect_right(alive, death) > few:
            found.append(number)
    return found
