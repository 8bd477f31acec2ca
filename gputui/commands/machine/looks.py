"""Looks at the machine without a screen, with what is wrong at each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gputui.errors import GputuiError
from gputui.explain.machine.record import record
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sampler import Machine

INTERVAL_S = 2.0
"""Seconds; as long as a point of the history."""


def looks(
    machine: Machine, interval_s: float, pause: Callable[[float], object], *, needs_driver: bool = True
) -> Iterator[Snapshot]:
    """Snapshots with their findings, without end; `pause` sleeps. Raises `GputuiError` where NVML does not work.

    Without `needs_driver`, the snapshots carry the reason as their problem instead.
    """
    history, watch = History(), Watch()
    is_first = True
    while True:
        snapshot = machine.look(Attention(), interval_s)
        if is_first and needs_driver and snapshot.devices.problem:
            raise GputuiError(snapshot.devices.problem)
        is_first = False
        record(history, snapshot)
        yield snapshot._replace(findings=watch.take(snapshot, history))
        pause(interval_s)
