"""The NVML source: looks at all devices, whatever state the driver is in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gputui.model.device import Device, DeviceLook
from gputui.model.reading import NOT_READ
from gputui.sources.nvml.binding import Nvml
from gputui.sources.nvml.errors import NvmlError, NvmlUnusableError, problem_of
from gputui.sources.nvml.pcie import PcieRates, Rates
from gputui.sources.nvml.session import Session

_RETRY_S = 2.8
"""After how many seconds NVML is initialised again while there is a problem; a little less than 3."""


class NvmlSource:
    """Reads all devices through NVML.

    Call `read` and `close` from one thread, `watch` from any. While the driver hangs, `read` hangs too.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pcie = PcieRates()
        self._watched: frozenset[str] = frozenset()
        self._session: Session | None = None
        self._retry_at = float("-inf")
        self._failed_look = DeviceLook()

    def watch(self, keys: frozenset[str]) -> None:
        """From now on, read the expensive PCIe and NVLink rates of the devices with these keys (`Device.key`)."""
        self._watched = keys
        self._pcie.watch(keys)

    def read(self) -> DeviceLook:
        """All devices and their processes, or no devices and the problem; no NVML error is raised."""
        now = self._clock()
        if self._session is None and now < self._retry_at:
            return self._failed_look
        try:
            return self._look(now)
        except NvmlUnusableError as problem:
            self._failed_look = DeviceLook(problem=str(problem))
        except NvmlError as error:
            self._failed_look = DeviceLook(problem=str(problem_of(error)))
        self._end()
        self._retry_at = now + _RETRY_S
        return self._failed_look

    def close(self) -> None:
        """End the thread that reads PCIe rates, and shut NVML down."""
        self._pcie.close()
        self._end()

    def _look(self, now: float) -> DeviceLook:
        if self._session is None:
            self._session = Session(Nvml())
        watched = self._watched
        look = self._session.look(now, watched)
        if not watched:
            return look
        self._pcie.serve(self._session.nvml, self._session.handles())
        rates = self._pcie.rates()
        return look._replace(devices=tuple(_with_pcie_rates(device, rates, watched) for device in look.devices))

    def _end(self) -> None:
        self._pcie.serve(None, {})
        if self._session is not None:
            self._session.close()
            self._session = None


def _with_pcie_rates(device: Device, rates: Mapping[str, Rates], watched: frozenset[str]) -> Device:
    if device.key not in watched or device.mig is not None or device.lost is not None:
        return device
    tx, rx = rates.get(device.key, (NOT_READ, NOT_READ))
    return device._replace(pcie_tx_bytes_per_s=tx, pcie_rx_bytes_per_s=rx)
