"""The real machine, as the sampler looks at it: its driver may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.host import HostSource
from gputui.sources.nvml import NvmlSource
from gputui.sources.probe.presence import ProbePresence
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import user_name
from gputui.sources.signals import send_signal

PATIENCE_S = 0.7
"""How long a look waits for the driver before it uses the last figures; one interval if that is shorter."""

NAMES_WITHIN_S = 0.05
"""Seconds that users' names may delay the first look."""

_FIRST_S, _FIRST_LOOKS = 10.0, 3
"""For how long, and for at least how many looks, snapshots have what the record knew when gputui started."""
_NOTHING: Mapping[str, float] = MappingProxyType({})


class LiveMachine:
    """Reads NVML in a thread of its own, which starts at once, and host and processes in the caller's thread."""

    def __init__(self) -> None:
        user_name.patience_s = min(user_name.patience_s, NAMES_WITHIN_S)
        self._devices = DeviceThread(NvmlSource)
        self._host = HostSource()
        self._processes = ProcessSource(pids_with_probes=ProbePresence())
        self._number = 0
        self._idle_since = _NOTHING
        self._started_at = time.time()
        self._devices.request(frozenset())

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """One snapshot; a hanging driver call delays it by at most `PATIENCE_S`."""
        if self._number or attention.devices:  # the first was requested in the constructor
            self._devices.request(attention.devices)
        host = self._host.read()
        devices, age_s = self._devices.result(min(PATIENCE_S, interval_s))
        if self._number == 1:  # nothing delays the first picture
            self._processes.watch_owners()
            threading.Thread(target=self._read_record, name="gputui-record", daemon=True).start()
        self._number += 1
        now = time.time()
        is_first = self._number <= _FIRST_LOOKS or now < self._started_at + _FIRST_S
        return Snapshot(
            time=now,
            number=self._number,
            interval_s=interval_s,
            devices=devices,
            devices_age_s=age_s,
            host=host,
            processes=self._processes.read(devices),
            details=self._processes.details(attention.process) if attention.process else None,
            idle_since=self._idle_since if is_first else _NOTHING,
        )

    def _read_record(self) -> None:
        """Read the record, in a thread of its own: its folder may be on a file system that does not answer."""
        from gputui.archive.idle import idle_since

        self._idle_since = idle_since(time.time())

    def send_signal(self, identity: Identity, number: int) -> None:
        """Send a signal to exactly this process."""
        send_signal(identity, number)

    def close(self) -> None:
        """End the NVML thread without waiting for it."""
        self._devices.close()


class DeviceThread:
    """Reads the devices on request in a daemon thread, so that a hanging driver call blocks nothing else."""

    def __init__(self, open_source: Callable[[], NvmlSource], clock: Callable[[], float] = time.monotonic) -> None:
        self._open_source = open_source
        self._clock = clock
        self._requested = threading.Event()
        self._done = threading.Event()
        self._is_closed = False
        self._watched: frozenset[str] = frozenset()
        self._look = DeviceLook()
        self._looked_at: float | None = None
        self._started_at = clock()
        self._thread: threading.Thread | None = None

    def request(self, watched: frozenset[str]) -> None:
        """Request a look, with the link rates of the `watched` devices, unless one is in progress."""
        self._watched = watched
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gputui-nvml", daemon=True)
            self._thread.start()
        if not self._requested.is_set():
            self._done.clear()
            self._requested.set()

    def result(self, timeout_s: float) -> tuple[DeviceLook, float]:
        """The requested look and 0, or after `timeout_s` the look before and its age in seconds."""
        if self._done.wait(timeout_s):
            return self._look, 0.0
        since = self._started_at if self._looked_at is None else self._looked_at
        return self._look, self._clock() - since

    def close(self) -> None:
        """End the thread as soon as its call returns."""
        self._is_closed = True
        self._requested.set()

    def _run(self) -> None:
        source, has_more = self._open_source(), False
        while not self._is_closed:
            self._requested.wait()
            if not self._is_closed:
                source.watch(self._watched)
                if self._looked_at is not None and not has_more:  # nothing delays the first picture
                    source.watch_profiles()
                    source.watch_faults()
                    has_more = True
                self._look = source.read()
                self._looked_at = self._clock()
                self._requested.clear()
                self._done.set()
        source.close()
