"""Some hours in the record of a machine: each GPU over time, the processes on the GPUs, and findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class PastFinding(NamedTuple):
    """A finding, and when it began and was last seen (epoch seconds)."""

    kind: str
    where: str
    title: str
    remedy: str
    since: float
    until: float


class PastProcess(NamedTuple):
    """A process on one device: `since` and `until` it was seen there, `active` is when it last computed, 0 for never.

    `held_bytes` is the most that it held, `allocated_bytes` the most that PyTorch had allocated of it, None where no
    probe told. `started` is 0, and `user`, `job` and `command` are "", where not known.
    """

    device: str
    pid: int
    started: float
    user: str
    job: str
    command: str
    since: float
    until: float
    active: float
    held_bytes: int
    allocated_bytes: int | None


class Stretch(NamedTuple):
    """A GPU between two times: its mean utilisation, and the most memory in use."""

    begin: float
    end: float
    utilization_percent: float | None
    used_bytes: int | None

    def within(self, begin: float, end: float) -> Stretch:
        """The part of the stretch between two times; where there is none, its end is not after its beginning."""
        return self._replace(begin=max(self.begin, begin), end=min(self.end, end))


def _mean(stretches: Iterable[Stretch]) -> float | None:
    parts = [
        (stretch.end - stretch.begin, stretch.utilization_percent)
        for stretch in stretches
        if stretch.end > stretch.begin and stretch.utilization_percent is not None
    ]
    whole_s = sum(span_s for span_s, _ in parts)
    return sum(span_s * percent for span_s, percent in parts) / whole_s if whole_s else None


class PastGpu(NamedTuple):
    """A GPU over time: its stretches, the oldest first, with gaps where nobody recorded."""

    label: str
    name: str
    stretches: tuple[Stretch, ...]

    def points(self, begin: float, end: float, count: int) -> list[float | None]:
        """The mean utilisation in each of `count` equal parts of a time, None where nothing was recorded."""
        part_s = (end - begin) / count
        return [
            _mean(stretch.within(begin + part * part_s, begin + (part + 1) * part_s) for stretch in self.stretches)
            for part in range(count)
        ]

    @property
    def mean_percent(self) -> float | None:
        """The mean utilisation over all stretches, None where it was never read."""
        return _mean(self.stretches)

    @property
    def most_used_bytes(self) -> int | None:
        """The most memory in use."""
        return max((stretch.used_bytes for stretch in self.stretches if stretch.used_bytes is not None), default=None)


class Past(NamedTuple):
    """Everything between `begin` and `end`; `first` and `last` are the bounds of the whole record, 0 if it is empty."""

    begin: float
    end: float
    gpus: Sequence[PastGpu]
    processes: Sequence[PastProcess]
    findings: Sequence[PastFinding]
    first: float
    last: float
