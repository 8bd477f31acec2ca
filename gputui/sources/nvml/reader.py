"""One device from look to look: its handle, what it has answered, and what is left of it while it is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputui.model.device import Device, RemappedRows
from gputui.model.reading import NOT_LOOKED_AT, Absent, AbsentKind, Reading, value_of
from gputui.sources.nvml.answers import Answers
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.codes import CallError, Code, GpuLostError, NvmlError, lost_by
from gputui.sources.nvml.table import MEMORY, ONCE, READINGS, Row

_RETRY_S = 2.8
"""After how many seconds a device that does not answer is tried again; a little less than 3."""

_IDENTITY = ("name", "uuid", "bus_id")
_LOOKED_AT = ("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlinks")
"""Fields that are read elsewhere, and only while somebody looks at the device."""
_WHOLE_ONLY = Absent("measured for the whole GPU, not for its MIG instances", AbsentKind.NOT_SUPPORTED)
_SHARES_HOST_MEMORY = Absent("this GPU has no memory of its own: it shares the host's", AbsentKind.NOT_SUPPORTED)
_REMAP_PENDING = "Memory rows with errors wait to be replaced: stop the GPU's processes and reset it, or reboot."
_REMAP_FAILED = "Memory rows with errors could not be replaced: the board should be exchanged."
_OF_INSTANCE = tuple(row for row in READINGS if row.of_instances)
_NOT_OF_INSTANCE = dict.fromkeys(
    (*_LOOKED_AT, *(row.field for row in READINGS if not row.of_instances and row.field not in _IDENTITY)), _WHOLE_ONLY
)


def _is_constant(row: Row) -> bool:
    return all(ask.lifetime_s == ONCE for ask in row.asks)


_LOST_WITH_DEVICE = (*_LOOKED_AT, *(row.field for row in READINGS if not _is_constant(row)))
_CONSTANT = tuple(row.field for row in READINGS if _is_constant(row) and row.field not in _IDENTITY)


class Reader:
    """Reads one device, a whole GPU or a MIG instance.

    `device` starts as what is known beforehand. `open_handle` finds the device's handle, afresh after it was lost.
    `handle` and `answers` are None while the device is lost.
    """

    def __init__(self, nvml: Nvml, device: Device, open_handle: Callable[[], Handle]) -> None:
        self._nvml = nvml
        self._open_handle = open_handle
        self._retry_at = float("-inf")
        self.device = device
        self.handle: Handle = None
        self.answers: Answers | None = None

    def read(self, now: float) -> Device:
        """The device as it is now; while it is lost, what is known of it and why. `NvmlGoneError` is raised."""
        if self.answers is not None or now >= self._retry_at:
            try:
                self.device = self._read(now)
            except (GpuLostError, CallError) as error:
                self.lose(error, now)
        return self.device

    def lose(self, error: NvmlError, now: float) -> None:
        """Give the device up until the next try, and keep of it what does not change."""
        self.handle = self.answers = None
        self._retry_at = now + _RETRY_S
        absent = error.absent
        readings: dict[str, Any] = dict.fromkeys(_LOST_WITH_DEVICE, absent)
        for field in _CONSTANT:
            known = getattr(self.device, field)
            readings[field] = absent if isinstance(known, Absent) else known
        self.device = self.device._replace(**readings, lost=lost_by(error), problems=())

    def _read(self, now: float) -> Device:
        if self.answers is None:
            self.handle = self._open_handle()
            self.answers = Answers(self._nvml, self.handle)
        is_instance = self.device.mig is not None
        readings = {row.field: self.answers.reading(row, now) for row in (_OF_INSTANCE if is_instance else READINGS)}
        for field in _IDENTITY:
            readings[field] = value_of(readings.get(field)) or getattr(self.device, field)
        if is_instance:
            return self.device._replace(**(readings | _NOT_OF_INSTANCE), lost=None)
        error = self.answers.answer(MEMORY, now).error
        shares_host_memory = error is not None and error.code == Code.NOT_SUPPORTED
        if shares_host_memory:
            readings["memory"] = _SHARES_HOST_MEMORY
        readings |= dict.fromkeys(_LOOKED_AT, NOT_LOOKED_AT)
        readings |= {"shares_host_memory": shares_host_memory, "problems": _problems(readings["remapped_rows"])}
        return self.device._replace(**readings, lost=None)


def _problems(rows: Reading[RemappedRows]) -> tuple[str, ...]:
    """What somebody has to do about memory that has failed."""
    if isinstance(rows, Absent):
        return ()
    found = ((rows.pending, _REMAP_PENDING), (rows.failed, _REMAP_FAILED))
    return tuple(sentence for is_so, sentence in found if is_so)
