"""PCIe throughput, read in a thread of its own: each NVML call counts bytes for 20 ms, too long for a look."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gputui.model.reading import Reading
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.errors import UNSUPPORTED, NvmlError

Rates = tuple[Reading[int], Reading[int]]
"""Bytes a second sent and received."""

_TX, _RX = 0, 1
_KB = 1024
"""NVML documents "KB/s" without a definition; nvitop takes them for KiB as well."""
_LAST_CALL_S = 0.5
"""How long `close` waits for a call in progress; a hanging driver must not keep the program from exiting."""


class PcieRates:
    """Reads the PCIe throughput of the devices that somebody looks at, every `interval_s` seconds.

    While nobody looks, the thread sleeps without waking up; the first look starts it.
    """

    def __init__(self, interval_s: float = 1.0) -> None:
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._watched: frozenset[str] = frozenset()
        self._nvml: Nvml | None = None
        self._handles: Mapping[str, Handle] = {}
        self._rates: dict[str, Rates] = {}
        self._unsupported: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_new = False
        """The watched devices have changed, so the next reading is due now."""
        self._is_closed = False

    def watch(self, keys: frozenset[str]) -> None:
        """Read the devices with these keys (`Device.key`) from now on, and no others."""
        with self._changed:
            if keys == self._watched:
                return
            self._watched, self._is_new = keys, True
            self._rates = {key: rates for key, rates in self._rates.items() if key in keys}
            if keys and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gputui-pcie", daemon=True)
                self._thread.start()
            self._changed.notify()

    def serve(self, nvml: Nvml | None, handles: Mapping[str, Handle]) -> None:
        """Take the handles of the devices that answer, by key; none while NVML does not work."""
        with self._changed:
            if nvml is not self._nvml:
                self._unsupported.clear()
                self._rates = {}
            self._nvml, self._handles = nvml, handles
            self._changed.notify()

    def rates(self) -> Mapping[str, Rates]:
        """Bytes a second sent and received by each watched device, as far as they have been read."""
        with self._changed:
            return dict(self._rates)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_CALL_S)

    def _run(self) -> None:
        while not self._is_closed:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._targets())
                nvml, targets, self._is_new = self._nvml, self._targets(), False
            for key, handle in targets.items():
                if nvml is not None and not self._is_closed:
                    self._read(nvml, key, handle)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._is_new, self._interval_s)

    def _targets(self) -> dict[str, Handle]:
        """The handles to read; called with the lock held."""
        keys = self._watched - self._unsupported
        return {key: handle for key, handle in self._handles.items() if key in keys}

    def _read(self, nvml: Nvml, key: str, handle: Handle) -> None:
        """Call NVML without the lock, 20 ms for each counter, and publish the rates if they are still needed."""
        sent, received = (self._rate(nvml, key, handle, counter) for counter in (_TX, _RX))
        with self._changed:
            if key in self._watched and nvml is self._nvml:
                self._rates[key] = sent, received

    def _rate(self, nvml: Nvml, key: str, handle: Handle, counter: int) -> Reading[int]:
        try:
            kilobytes: int = nvml.call("nvmlDeviceGetPcieThroughput", handle, counter)
        except NvmlError as error:
            if error.code in UNSUPPORTED:
                self._unsupported.add(key)
            return error.absent
        return kilobytes * _KB
