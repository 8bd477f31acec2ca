"""Readings that take too long for a look, taken in a thread of their own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from gputui.sources.nvml.binding import Handle, Nvml

R = TypeVar("R")

_LAST_CALL_S = 0.5
"""How long `close` waits for a call in progress; a hanging driver must not keep the program from exiting."""


class SlowReadings(ABC, Generic[R]):
    """Takes a reading `R` of the devices that somebody looks at, every `interval_s` seconds.

    The first look starts the thread, which sleeps without waking up while nobody looks.
    """

    THREAD: str

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._watched: frozenset[str] = frozenset()
        self._nvml: Nvml | None = None
        self._handles: Mapping[str, Handle] = {}
        self._readings: dict[str, R] = {}
        self._unsupported: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_new = False
        """Whether the watched devices have changed, so that the next reading is due now."""
        self._is_closed = False

    @abstractmethod
    def _read(self, nvml: Nvml, key: str, handle: Handle) -> R:
        """Call NVML, without the lock. The key of an unsupported device goes to `_unsupported`: it is read no more."""

    def watch(self, keys: frozenset[str]) -> None:
        """Read the devices with these keys (`Device.key`) from now on, and no others."""
        with self._changed:
            if keys == self._watched:
                return
            self._watched, self._is_new = keys, True
            self._readings = {key: reading for key, reading in self._readings.items() if key in keys}
            if keys and self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.THREAD, daemon=True)
                self._thread.start()
            self._changed.notify()

    def serve(self, nvml: Nvml | None, handles: Mapping[str, Handle]) -> None:
        """Take the handles of the devices that answer, by key; none while NVML does not work."""
        with self._changed:
            if nvml is not self._nvml:
                self._unsupported.clear()
                self._readings = {}
            self._nvml, self._handles = nvml, handles
            self._changed.notify()

    def readings(self) -> Mapping[str, R]:
        """The last reading of each watched device, as far as they have been taken."""
        with self._changed:
            return dict(self._readings)

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
                    self._take(nvml, key, handle)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._is_new, self._pause_s())

    def _targets(self) -> dict[str, Handle]:
        """The handles to read; called with the lock held."""
        keys = self._watched - self._unsupported
        return {key: handle for key, handle in self._handles.items() if key in keys}

    def _pause_s(self) -> float | None:
        """How long to rest after all have been read; None until something is new."""
        return self._interval_s

    def _take(self, nvml: Nvml, key: str, handle: Handle) -> None:
        """Read without the lock, and publish the reading if it is still needed."""
        reading = self._read(nvml, key, handle)
        with self._changed:
            if key in self._watched and nvml is self._nvml:
                self._readings[key] = reading
                self._changed.notify_all()
