"""True utilisation of GPUs without GPM, from the page of the dcgm-exporter on this node, if there is one.

The page has profiling metrics only where its owner has turned them on. Any program may listen on the port, so the
answer is bounded in time and size, and only possible numbers are taken from it.
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
"""When the page is read again; dcgm-exporter collects every 30 s by default."""

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
"""Fields in `Device` by metric, without DCGM_FI_PROF_: names up to DCGM 4.5 and since 4.6, ratios of 0 to 1 in both."""

_LINE = re.compile(r"DCGM_FI_PROF_(\w+)\{([^{}]*)\} +([0-9.eE+-]+)(?: +-?\d+)?\r?", re.ASCII)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"', re.ASCII)


Entity = tuple[str, Union[int, None]]
"""A GPU's UUID, and the number of one of its MIG instances, None for the whole GPU."""

Shares = dict[str, float]
"""Percentages by their fields in `Device`."""


class DcgmPage:
    """The page of dcgm-exporter, which a thread of its own reads when a look finds that due."""

    def __init__(self, address: tuple[str, int] = ADDRESS, clock: Callable[[], float] = time.monotonic) -> None:
        self._address, self._clock = address, clock
        self._due_at = float("-inf")
        self._shares: Mapping[Entity, Shares] = {}
        self._thread: threading.Thread | None = None

    def look(self, wait_s: float = 0.0) -> Mapping[Entity, Shares]:
        """What the page had when it was last read, {} where that failed. Waits `wait_s` at most if a reading is due."""
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
    """The profiling metrics on a page. A GPU that pods share may have several lines, all with the same value."""
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
