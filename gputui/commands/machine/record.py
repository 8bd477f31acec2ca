"""`gputui record`: keeps days of this machine in a file, until it is ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

from gputui.archive.place import SHARED
from gputui.archive.shares import Allocated, device_times
from gputui.archive.store import Archive, file_to_write
from gputui.commands.machine.looks import INTERVAL_S, looks
from gputui.commands.parser import Parser
from gputui.errors import GputuiError
from gputui.model.machine.snapshot import Snapshot
from gputui.output import narrate
from gputui.settings import Settings

EVERY_S = 10.0
PROBES_WITHIN_S, PROBES_AT_A_TIME = 1.0, 8
GAP_S = 3 * EVERY_S
"""Of a longer time between two entries, as while a laptop sleeps, only so much is counted: the rest is not known."""


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Record until the process is ended."""
    parser = Parser(
        prog="gputui record",
        usage="gputui record [--shared] [--file FILE]",
        description="Keep who used and who held which GPU, and what was wrong, every ten seconds, for 30 days.\n"
        "It runs until it is ended. `gputui report` shows what is in the file. docs/archive.md has a service for it.",
    )
    parser.add_argument(
        "--shared", action="store_true", help=f"let every user read it, by default in {SHARED}, where gputui looks"
    )
    parser.add_argument("--file", metavar="FILE", help="another file than machine.db in the folder for state")
    parsed = parser.parse(arguments)
    path = Path(parsed.file) if parsed.file else file_to_write(is_shared=parsed.shared)
    archive = Archive(path, is_shared=parsed.shared)

    from gputui.sources.machine import LiveMachine

    machine = LiveMachine()
    try:
        keep(archive, looks(machine, INTERVAL_S, Event().wait), Peaks().read)
    finally:
        machine.close()
        archive.close()
    return 0


class Peaks:
    """Asks probes for their programs' peaks of allocated bytes, without a look; probes in containers are left out."""

    def __init__(self) -> None:
        from gputui.sources.probe.turns import Turns

        self._turns = Turns()

    def read(self, snapshot: Snapshot) -> Allocated:
        """Peak allocated bytes by PID and device, from the probes of a snapshot's processes that answer in time."""
        pids = {process.pid for process in snapshot.processes.processes if process.has_probe}
        if not pids:
            return {}
        from gputui.explain.memory.drivers import physical_device
        from gputui.sources.probe.listing import list_probes

        try:
            probes = list_probes(
                pids.__contains__, within_s=PROBES_WITHIN_S, at_a_time=PROBES_AT_A_TIME, turns=self._turns
            )
        except GputuiError:
            return {}
        return {
            (probe.pid, device.key): counters.peak_allocated_bytes
            for probe in probes
            if probe.greeting
            for known in probe.greeting.devices
            for counters in probe.held
            if counters.device == known.index and (device := physical_device(known, snapshot.devices))
        }


def keep(
    archive: Archive,
    snapshots: Iterator[Snapshot],
    allocated: Callable[[Snapshot], Allocated] = lambda _snapshot: {},
) -> None:
    """Write a snapshot every ten seconds. Those that the disk refuses are left out; the user is told of the first."""
    last, is_refused = 0.0, False
    for snapshot in snapshots:
        if 0 <= snapshot.time - last < EVERY_S - INTERVAL_S / 2:  # below 0: the clock was set back
            continue
        span_s = max(0.0, min(snapshot.time - last, GAP_S)) if last else 0.0
        last = snapshot.time
        if snapshot.devices_age_s:
            continue
        try:
            archive.add(snapshot.time, device_times(snapshot, span_s, allocated(snapshot)), snapshot.findings)
            is_refused = False
        except sqlite3.Error as error:
            if not is_refused:
                narrate(f"The record cannot be written: {error}. gputui keeps trying.")
            is_refused = True
