"""Reads XIDs, errors that the driver reports, from NVML's events, which any user may wait for.

An event set has only events after its devices were registered. A wait of 0 ms returns at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from gputui.model.machine.device import Xid
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.errors import NvmlError

_XID = 8
"""nvmlEventTypeXidCriticalError."""
_KEPT = 64
_AT_ONCE = 32
"""How many events a look takes at most: a failing GPU can report thousands."""


class XidEvents:
    """Collects the events of all devices that can be registered for them."""

    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self._set: Raw = None
        self._tried: set[str] = set()
        self._events: deque[Xid] = deque(maxlen=_KEPT)

    def look(self, nvml: Nvml, handles: Mapping[str, Handle]) -> tuple[Xid, ...]:
        """The newest errors, the oldest first; `handles` has the devices' handles by their keys."""
        if nvml is not self._nvml:
            self._begin(nvml)
        if self._set is not None:
            self._register(nvml, handles)
            self._take(nvml)
        return tuple(self._events)

    def close(self, nvml: Nvml) -> None:
        """Free the event set before NVML is shut down; the collected errors stay."""
        if self._set is not None and nvml is self._nvml:
            with suppress(NvmlError):
                nvml.call("nvmlEventSetFree", self._set)
        self._nvml = self._set = None

    def _begin(self, nvml: Nvml) -> None:
        self._nvml, self._set, self._tried = nvml, None, set()
        with suppress(NvmlError):  # without events, only the findings about XIDs are missing
            self._set = nvml.call("nvmlEventSetCreate")

    def _register(self, nvml: Nvml, handles: Mapping[str, Handle]) -> None:
        for key, handle in handles.items():
            if key not in self._tried:
                self._tried.add(key)
                with suppress(NvmlError):
                    nvml.call("nvmlDeviceRegisterEvents", handle, _XID, self._set)
        self._tried &= handles.keys()  # a device that was lost is registered again

    def _take(self, nvml: Nvml) -> None:
        with suppress(NvmlError):  # a timeout: there is none
            for _ in range(_AT_ONCE):
                event = nvml.call("nvmlEventSetWait_v2", self._set, 0)
                if event.eventType == _XID:
                    key = nvml.call("nvmlDeviceGetUUID", event.device)
                    self._events.append(Xid(key, int(event.eventData), time.time()))
