"""The factor by which the long tests run longer than usual."""

import os
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

SCALE = int(os.environ.get("GPUTUI_TEST_SCALE", "1"))
"""Multiplies the counts of long tests: 1 in daily use, more for `python -m benchmarks.nightly`."""


def scaled(daily: int, nightly: int) -> int:
    """The small count of daily use, or the other one times the factor."""
    return daily if SCALE == 1 else nightly * SCALE


def sized(daily: T, nightly: T) -> T:
    """The small size of daily use, or the other one, whatever the factor."""
    return daily if SCALE == 1 else nightly


def some(cases: Iterable[Any], every: int) -> list[Any]:
    """One of so many cases in daily use, all of them otherwise; if it shares no factor with a row, all rows come."""
    return [*cases][:: every if SCALE == 1 else 1]


def at_night(*cases: Any) -> tuple[Any, ...]:
    """These cases, but not in daily use."""
    return () if SCALE == 1 else cases
