"""True utilisation by the page that dcgm-exporter offers on this node: for GPUs without GPM, where somebody runs one.

The page has profiling metrics only where its owner has turned them on. Any program may listen on the port: what comes
is bounded in time and size, and only numbers that can be are taken from it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Union

from gputui.sources.pages.fetch import fetched

ADDRESS = ("127.0.0.1", 9400)

_AGAIN_S, _AFTER_FAILURE_S = 10.0, 60.0
"""dcgm-exporter collects every 30 s as a rule."""

_FIELDS = {
    "SM_ACTIVE": "sm_active_percent",
    "SM_UTIL_RATIO": "sm_active_percent",
    "SM_OCCUPANCY": "sm_occupancy_percent",
    "SM_OCCUPANCY_RATIO": "sm_occupancy_percent",
    "PIPE_TENSOR_ACTIVE": "tensor_percent",
    "TENSOR_UTIL_RATIO": "tensor_percent",
    "DRAM_ACTIVE": "dram_percent",
    "DRAM_UTIL_RATIO": "dram_percent",
    "PIPE_FP64_ACTIVE": "fp64_percent",
    "FP64_UTIL_RATIO": "fp64_percent",
    "PIPE_FP32_ACTIVE": "fp32_percent",
    "FP32_UTIL_RATIO": "fp32_percent",
    "PIPE_FP16_ACTIVE": "fp16_percent",
    "FP16_UTIL_RATIO": "fp16_percent",
}
"""DCGM_FI_PROF_*, by their names up to DCGM 4.5 and since 4.6: ratios of 0 to 1 under both."""

_LINE = re.compile(r"DCGM_FI_PROF_(\w+)\{([^{}]*)\} +([0-9.eE+-]+)(?: +-?\d+)?\r?", re.ASCII)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"', re.ASCII)


Entity = tuple[str, Union[int, None]]
"""A GPU by its UUID, or one of its MIG instances by its number, too."""

Shares = dict[str, float]
"""Percentages by their fields in `Device`."""


class DcgmPage:
    """The page, read in a thread of its own each time that a look finds it due."""

    def __init__(self, address: tuple[str, int] = ADDRESS, clock: Callable[[], float] = time.monotonic) -> None:
        self._address, self._clock = address, clock
        self._due_at = float("-inf")
        self._shares: Mapping[Entity, Shares] = {}
        self._thread: threading.Thread | None = None

    def look(self, wait_s: float = 0.0) -> Mapping[Entity, Shares]:
        """What the page had when it was read last; nothing where it could not be. Waits for it `wait_s` at most."""
        if self._clock() >= self._due_at and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._read, name="gputui-dcgm", daemon=True)
            self._thread.start()
            self._thread.join(wait_s)
        return self._shares

    def _read(self) -> None:
        try:
            self._shares, again_s = shares_on(fetched(self._address)), _AGAIN_S
        except OSError:
            self._shares, again_s = {}, _AFTER_FAILURE_S
        self._due_at = self._clock() + again_s


def shares_on(page: str) -> dict[Entity, Shares]:
    """The profiling metrics of a page. Of a GPU that pods share there may be several, all with the same number."""
    found: dict[Entity, Shares] = {}
    for metric, labels, value in _samples(page):
        field = _FIELDS.get(metric)
        uuid, instance = labels.get("UUID", ""), labels.get("GPU_I_ID", "")
        if field is None or not uuid or not 0 <= value <= 1:
            continue
        number = int(instance) if re.fullmatch(r"\d{1,3}", instance, re.ASCII) else None
        found.setdefault((uuid, number), {})[field] = 100 * value
    return found


def _samples(page: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in page.split("\n"):
        match = _LINE.fullmatch(line) if line.startswith("DCGM_FI_PROF_") else None
        if match is None:
            continue
        try:
            yield match[1], dict(_LABEL.findall(match[2])), float(match[3])
        except ValueError:
            continue
