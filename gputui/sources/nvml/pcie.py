"""PCIe throughput, read in a thread of its own: each NVML call counts bytes for 20 ms, which is too long for a look."""

from __future__ import annotations

from gputui.model.machine.device_readings import READING_OF
from gputui.model.reading import Reading
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.errors import UNSUPPORTED, NvmlError
from gputui.sources.nvml.slow import SlowReadings

Rates = tuple[Reading[int], Reading[int]]
"""Bytes a second sent and received."""

_TX, _RX = 0, 1
_READINGS = {_TX: READING_OF["pcie_tx_bytes_per_s"], _RX: READING_OF["pcie_rx_bytes_per_s"]}
_KB = 1024
"""NVML documents "KB/s" without a definition; nvitop takes them for KiB as well."""


class PcieRates(SlowReadings[Rates]):
    """Reads the PCIe throughput of the devices that somebody looks at."""

    THREAD = "gputui-pcie"

    def __init__(self, interval_s: float = 1.0) -> None:
        super().__init__(interval_s)

    def _read(self, nvml: Nvml, key: str, handle: Handle) -> Rates:
        return self._rate(nvml, key, handle, _TX), self._rate(nvml, key, handle, _RX)

    def _rate(self, nvml: Nvml, key: str, handle: Handle, counter: int) -> Reading[int]:
        try:
            kilobytes: int = nvml.call("nvmlDeviceGetPcieThroughput", handle, counter)
        except NvmlError as error:
            if error.code in UNSUPPORTED:
                self._unsupported.add(key)
            return error.absent
        return _READINGS[counter].checked(kilobytes * _KB)
