"""The parts of the benchmark, in their order, and how each is run: one that fails says so, and the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.real_gpu.attaching import attaching
from benchmarks.real_gpu.cost import cost
from benchmarks.real_gpu.nvml_calls import delays, profile
from benchmarks.real_gpu.place import TRAINING, EndedError, Place, Running
from benchmarks.real_gpu.readings import readings
from benchmarks.real_gpu.releases import captured_graph, random_programs
from benchmarks.real_gpu.result import Result, Size
from benchmarks.real_gpu.running_out import running_out
from benchmarks.real_gpu.sizes import sizes
from benchmarks.real_gpu.steps import looks_in_steps

ALONE: dict[str, Callable[[Place, Size], Result]] = {
    "sizes on the device": sizes,
    "empty_cache() of random programs": random_programs,
    "empty_cache() beside a CUDA graph": captured_graph,
    "out of memory": running_out,
    "cost of the probe": cost,
    "looks in a step": looks_in_steps,
}
BESIDE: dict[str, Callable[[Place, Size, Running], Result]] = {
    "readings against nvidia-smi": readings,
    "delays of NVML": delays,
    "true utilisation (GPM)": profile,
    "attaching": attaching,
}
"""Those of a training that runs meanwhile."""

BEGUN_WITHIN_S = 15 * 60.0
"""No part begins later, so that all ends within twenty minutes."""
LONGEST = 800
"""Characters of an error: the last ones tell."""


def run_parts(place: Place, size: Size) -> Iterator[tuple[str, Result]]:
    """Each part with its result, once it is done."""
    end = time.monotonic() + BEGUN_WITHIN_S
    for name, part in ALONE.items():
        yield name, _safely(partial(part, place, size), end)
    try:
        with place.training(str(TRAINING), *size.words) as running:
            for name, beside in BESIDE.items():
                yield name, _safely(partial(beside, place, size, running), end)
    except EndedError as error:
        for name in BESIDE:
            yield name, Result(left_out=[str(error)])


def _safely(part: Callable[[], Result], end: float) -> Result:
    if time.monotonic() > end:
        return Result(left_out=["There was no time left for it."])
    try:
        return part()
    except Exception as error:  # noqa: BLE001 - the others go on
        result = Result()
        result.expect("this part", "runs to its end", f"{type(error).__name__}: {str(error)[-LONGEST:]}", holds=False)
        return result
