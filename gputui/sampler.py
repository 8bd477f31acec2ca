"""The sampler: one daemon thread that takes a snapshot each interval and hands it to a listener."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot

Listener = Callable[[Snapshot], None]


class Machine(Protocol):
    """What the sampler looks at: the real machine or a demonstration."""

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """One snapshot; returns in time even while a driver call hangs."""
        ...

    def send_signal(self, identity: Identity, number: int) -> None:
        """Send a signal to exactly this process. Raises `GputuiError` where it is refused."""
        ...

    def close(self) -> None:
        """Release handles and threads without waiting."""
        ...


class Sampler:
    """Takes snapshots of a machine; the methods may be called from any thread and return at once.

    The thread waits on an `Event`, which can be interrupted, and it is a daemon: quitting does not wait for a thread
    that is stuck in a driver call.
    """

    def __init__(self, machine: Machine, listener: Listener, interval_s: float) -> None:
        self._machine = machine
        self._listener = listener
        self._interval_s = interval_s
        self._attention = Attention()
        self._is_paused = False
        self._is_stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gputui-sampler", daemon=True)

    def start(self) -> None:
        """Start the thread, which takes the first snapshot at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for a look in progress."""
        self._is_stopped = True
        self._wake.set()

    def set_interval(self, interval_s: float) -> None:
        """Take a snapshot every `interval_s` seconds from now on."""
        self._interval_s = interval_s
        self._wake.set()

    def set_paused(self, is_paused: bool) -> None:  # noqa: FBT001 - the state itself, not a switch of behaviour
        """While paused nothing is read."""
        self._is_paused = is_paused
        self._wake.set()

    def set_attention(self, attention: Attention) -> None:
        """Set what the screens look at; a change causes a look at once."""
        changed, self._attention = attention != self._attention, attention
        if changed:
            self._wake.set()

    def refresh(self) -> None:
        """Take a snapshot now."""
        self._wake.set()

    def replace(self, machine: Machine) -> None:
        """Look at `machine` from now on; the previous machine stays open."""
        self._machine = machine
        self._wake.set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._is_stopped:
            if self._is_paused:
                self._wake.wait()
            else:
                self._take()
                due = max(due + self._interval_s, time.monotonic())
                self._wake.wait(max(0.0, due - time.monotonic()))
            if self._wake.is_set():
                self._wake.clear()
                due = time.monotonic()
        self._machine.close()

    def _take(self) -> None:
        snapshot = self._machine.look(self._attention, self._interval_s)
        if not self._is_stopped:
            self._listener(snapshot)
