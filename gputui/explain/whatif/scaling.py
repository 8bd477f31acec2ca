"""Which requests depend on the batch, told from a trace alone.

Parameters, gradients, optimizer states and workspaces keep their sizes. Their sizes are those of what was there before
the trace or is never freed in it. An activation can have such a size by chance: then how long it lives decides. A
gradient outlives the activations that are there when it is made, and where an optimizer works there are hardly any; an
activation dies before those made earlier. What is freed right after it was made is the workspace of one operation, such
as a convolution's for one sample: the result of an operation lives until another has made something of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort

from gputui.explain.whatif.operations import FOREVER, Operations, lifetimes

SMALLEST_SCALED_BYTES = 4096
"""Requests below this do not matter: losses, counters, norms."""
WORKSPACES_BYTES = (8_519_680, 33_554_432, 1 << 20)
"""cuBLAS's workspaces (before and on compute capability 9.0) and cuBLASLt's, which PyTorch's allocator holds."""
FEW = 0.05
"""A share of the activations alive at the peak: so many may outlive a gradient, such as outputs that are kept."""


def varying(operations: Operations) -> bytes:
    """For each allocation 1 if its size is in proportion to the batch, else 0."""
    births, deaths = lifetimes(operations)
    sizes = operations.sizes_bytes
    fixed = {size for size, death in zip(sizes, deaths, strict=True) if death == FOREVER}
    fixed.update(sizes[: operations.earlier], WORKSPACES_BYTES)
    varies = bytearray(size >= SMALLEST_SCALED_BYTES and size not in fixed for size in sizes)
    workspaces = _workspaces(births, deaths, varies, sizes, fixed)
    for number in workspaces:
        varies[number] = 0
    most_alive = _most_alive(births, deaths, varies)
    for number in _look_like_activations(births, deaths, varies, sizes, FEW * most_alive):
        varies[number] = number not in workspaces
    return bytes(varies)


def _workspaces(
    births: array[int], deaths: array[int], varies: bytearray, sizes: array[int], fixed: set[int]
) -> set[int]:
    """Allocations during whose life nothing varying is made, as is true for all of their size; one is freed at once.

    In a backward pass the gradients of a weight and a bias are made while a convolution's workspace is there.
    """
    made = sorted(birth for birth, flag in zip(births, varies, strict=True) if flag)
    lives = [death - birth for birth, death in zip(births, deaths, strict=True)]
    quiet = [bisect_left(made, d) == bisect_right(made, b) for b, d in zip(births, deaths, strict=True)]
    columns = list(zip(sizes, lives, quiet, strict=True))
    at_once = {size for size, life, _ in columns if life == 1 and size >= SMALLEST_SCALED_BYTES}
    at_once -= {size for size, _, is_quiet in columns if not is_quiet and size not in fixed}
    return {number for number, (size, _, is_quiet) in enumerate(columns) if is_quiet and size in at_once}


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
    """Allocations of a fixed size that die before more than `few` of the varying ones that were there first."""
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
