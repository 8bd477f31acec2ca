"""Metrics of PyTorch's allocators, from the counters that probes read without a look: no program is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gputui.explain.memory.bridge import outside_torch
from gputui.explain.memory.drivers import driver_facts, physical_device
from gputui.export.families import Family, Kind, Labels, Sample, present
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.target import Greeting
from gputui.model.machine.device import DeviceLook
from gputui.model.reading import value_of
from gputui.sources.probe.told import ProbeInfo

UP = Family("torch_probe_up", "1 where the probe of a program answers, 0 where it does not in time.")
OUTSIDE = Family("torch_outside_bytes", "What a program holds beyond PyTorch: CUDA context, NCCL, other libraries.")


class Row(NamedTuple):
    """A metric, and how its value is read from the counters of one device's allocator."""

    family: Family
    value: Callable[[AllocatorStatistics], int]


ROWS = (
    Row(Family("torch_reserved_bytes", "What the allocator has taken from the driver."), lambda s: s.reserved_bytes),
    Row(Family("torch_allocated_bytes", "What it has handed out to tensors."), lambda s: s.allocated_bytes),
    Row(Family("torch_active_bytes", "Allocated, and freed but awaited by a stream."), lambda s: s.active_bytes),
    Row(Family("torch_requested_bytes", "What tensors asked for, before rounding."), lambda s: s.requested_bytes),
    Row(Family("torch_peak_reserved_bytes", "Highest reserved, since the program last reset it."),
        lambda s: s.peak_reserved_bytes),
    Row(Family("torch_peak_allocated_bytes", "Highest allocated, since the program last reset it."),
        lambda s: s.peak_allocated_bytes),
    Row(Family("torch_out_of_memory_errors", "Out-of-memory errors, those included that the program caught.",
               Kind.COUNTER), lambda s: s.num_ooms),
    Row(Family("torch_allocation_retries", "How often the cache had to be emptied to allocate.", Kind.COUNTER),
        lambda s: s.num_alloc_retries),
    Row(Family("torch_device_allocations", "Calls of cudaMalloc, and the like.", Kind.COUNTER),
        lambda s: s.num_device_alloc),
    Row(Family("torch_allocator_changes", "Changes of the allocator: a training makes many a step, a stuck one none.",
               Kind.COUNTER), lambda s: s.generation),
)  # fmt: skip
FAMILIES = (UP, *(row.family for row in ROWS), OUTSIDE)


def probe_samples(probes: tuple[ProbeInfo, ...], look: DeviceLook, labels: Mapping[str, Labels]) -> Iterator[Sample]:
    """The counters of each program with a probe; `look` tells which GPUs PyTorch's devices are, if it can be known."""
    for probe in probes:
        greeting = probe.greeting
        yield Sample(UP, present(pid=probe.pid), greeting is not None)
        if greeting is None:
            continue
        facts = driver_facts(greeting, look, probe.pid)
        for counters in probe.held:
            of = _labels(probe.pid, greeting, counters.device, look, labels)
            for family, value in ROWS:
                yield Sample(family, of, value(counters))
            if counters.device in facts:
                outside = value_of(outside_torch(facts[counters.device].process_used_bytes, counters.reserved_bytes))
                if outside is not None:
                    yield Sample(OUTSIDE, of, outside)


def _labels(pid: int, greeting: Greeting, index: int, look: DeviceLook, labels: Mapping[str, Labels]) -> Labels:
    """The labels of a PyTorch device: those of its GPU, or PyTorch's own index where the GPU is not known."""
    known = next((device for device in greeting.devices if device.index == index), None)
    physical = physical_device(known, look) if known else None
    of = present(torch_device=index) if physical is None else labels[physical.key]
    return {**of, **present(pid=pid, rank=greeting.rank)}
