"""What a metric is: its name, its type, what it means; and one of its samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

PREFIX = "gputui_"
_UNITS = ("bytes_per_second", "bytes", "seconds", "ratio", "watts", "joules", "celsius", "hertz")


class Kind(str, Enum):
    """A metric's type, as OpenMetrics names it; the older format shows an `info` as a gauge of 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


_SUFFIXES = {Kind.GAUGE: "", Kind.COUNTER: "_total", Kind.INFO: "_info"}


class Family(NamedTuple):
    """A metric; `name` is without prefix and suffix."""

    name: str
    meaning: str
    kind: Kind = Kind.GAUGE

    @property
    def base(self) -> str:
        """The name of the family: that of its samples without `_total` or `_info`."""
        return PREFIX + self.name

    @property
    def sample_name(self) -> str:
        """The name of its samples, as queries have it."""
        return self.base + _SUFFIXES[self.kind]

    @property
    def unit(self) -> str:
        """The unit in which its name ends, "" for numbers without one."""
        return next((unit for unit in _UNITS if self.name.endswith(f"_{unit}")), "")


Labels = Mapping[str, str]


class Sample(NamedTuple):
    """One line of the page."""

    family: Family
    labels: Labels
    value: float = 1.0


def present(**labels: object) -> dict[str, str]:
    """Labels as texts, without those that are not known: to Prometheus, an empty label is none."""
    return {name: str(value) for name, value in labels.items() if value not in (None, "")}


def names_of(families: Iterable[Family]) -> list[str]:
    """The sample names of families, in their order."""
    return [family.sample_name for family in families]
