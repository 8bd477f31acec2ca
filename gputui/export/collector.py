"""From readings to the page: what Prometheus' library asks for at each scrape."""

from __future__ import annotations

import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gputui import __version__
from gputui.export import allocators, devices, processes
from gputui.export.families import Family, Kind, Sample, present
from gputui.export.sources import Readings, Source
from gputui.model.machine.device import DeviceLook

BUILD_INFO = Family("exporter_build", "The exporter's version.", Kind.INFO)
NVML_UP = Family("nvml_up", "1 where the NVIDIA driver answers, 0 where it does not: devices are then missing.")
ERRORS = Family("scrape_source_errors", "How often a source could not be read, or not in time.", Kind.COUNTER)
DURATION = Family("scrape_duration_seconds", "How long the sources took at this scrape.")
FAMILIES = (
    *(BUILD_INFO, NVML_UP, DURATION, ERRORS),
    *(*devices.FAMILIES, *processes.FAMILIES, *allocators.FAMILIES),
)
"""Every metric, in the order of the page."""


class ReadsAll(Protocol):
    """What a page is read from: `sources.Sources`."""

    def read(self) -> Readings:
        """Ask all sources."""
        ...


class MachineCollector(Collector):
    """Reads all sources at each scrape; `problems` are those of the last scrape, as sentences."""

    def __init__(self, sources: ReadsAll, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._errors: Counter[Source] = Counter(dict.fromkeys(Source, 0))
        self._seen: dict[str, Sample] = {}
        """The info sample of each GPU that was seen since the exporter began, by `Device.key`."""
        self._began_at = float("-inf")
        self._last: list[Sample] = []
        self.problems: tuple[tuple[Source, str], ...] = ()

    def describe(self) -> Iterator[Metric]:
        """All metrics, without samples: the library asks for their names."""
        return map(_metric, FAMILIES)

    def collect(self) -> Iterator[Metric]:
        """The metrics that have samples. Scrapers that wait for the same reading to end share the next reading."""
        asked_at = self._clock()
        with self._one_at_a_time:
            if self._began_at <= asked_at:
                self._began_at = self._clock()
                self._last = list(self._samples())
            samples = self._last
        return iter(_metrics(samples))

    def _samples(self) -> Iterator[Sample]:
        readings = self._sources.read()
        self.problems = readings.problems
        self._errors.update(source for source, _ in readings.problems)
        yield Sample(BUILD_INFO, {"version": __version__, "python": platform.python_version()})
        yield Sample(DURATION, {}, self._clock() - self._began_at)
        yield from (Sample(ERRORS, {"source": source.value}, count) for source, count in self._errors.items())
        look = readings.devices
        yield Sample(NVML_UP, {}, look is not None and look.problem is None)
        yield from self._presence(look)
        look = look or DeviceLook()
        labels = devices.device_labels(look)
        yield from devices.device_samples(look, labels)
        yield from processes.use_samples(look, labels)
        if readings.processes is not None:
            yield from devices.unattributed_samples(look, readings.processes, labels)
            yield from processes.process_samples(readings.processes)
        yield from allocators.probe_samples(readings.probes, look, labels)

    def _presence(self, look: DeviceLook | None) -> Iterator[Sample]:
        """Info of all GPUs seen so far, and which are lost, which nobody knows while the driver does not answer."""
        gpus = {device.key: device for device in look.devices if device.mig is None} if look else {}
        for key, device in gpus.items():
            if device.uuid:
                self._seen.pop(device._replace(uuid="").key, None)  # the key of a GPU whose UUID could not be read
            if device.lost is None or key not in self._seen:
                self._seen[key] = devices.info_of(device, look.driver.version if look else "")
        for key, info in self._seen.items():
            yield info
            if look is not None and look.problem is None:
                here = gpus.get(key)
                of = present(UUID=info.labels.get("UUID"), gpu=info.labels.get("gpu"))
                yield Sample(devices.LOST, of, here is None or here.lost is not None)


def _metrics(samples: Iterable[Sample]) -> list[Metric]:
    """One metric for each family that has samples; of samples with the same name and labels, only the first counts."""
    metrics: dict[Family, Metric] = {}
    given: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for family, labels, value in samples:
        line = (family.name, frozenset(labels.items()))
        if line not in given:
            given.add(line)
            metric = metrics.setdefault(family, _metric(family))
            metric.add_sample(family.sample_name, dict(labels), float(value))
    return [metrics[family] for family in FAMILIES if family in metrics]


def _metric(family: Family) -> Metric:
    return Metric(family.base, family.meaning, family.kind.value, family.unit)
