"""`gputui --once`: looks, prints, and returns the exit status."""

from __future__ import annotations

from gputui.explain.machine.record import record
from gputui.explain.machine.scene import Scene
from gputui.explain.machine.watch import Watch
from gputui.explain.machine.working import idle_held
from gputui.model.history import History
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.once.look import look
from gputui.output import is_in_color, output_width, put, put_document
from gputui.settings import Settings

WIDTH_OF_A_PIPE = 100
"""Columns where standard output is not a terminal and COLUMNS is not set."""

_OWNERS_WITHIN_S = 1.0
_PROFILE_WITHIN_S = 1.0


def run_once(settings: Settings, *, demo: bool, as_json: bool) -> int:
    """Print one look; the exit status is 1 where NVML could not be read, and the rest is printed all the same."""
    snapshot = _demo() if demo else read_machine(with_profile=as_json)
    snapshot = snapshot._replace(findings=findings_of(snapshot))
    if as_json:
        from gputui.once.allocators import Probes
        from gputui.once.document import document

        allocators = {} if demo else Probes().allocators(snapshot.devices)
        put_document(document(snapshot, allocators=allocators))
    else:
        from gputui.once.table import plain

        put(plain(snapshot, output_width(WIDTH_OF_A_PIPE), settings, in_color=is_in_color(settings)))
    return 1 if snapshot.devices.problem else 0


def read_machine(*, with_profile: bool = False) -> Snapshot:
    """One look at this machine; a driver that does not answer is a problem of the snapshot.

    True utilisation is a mean over a tenth of a second, which only the document has the time for.
    """
    from gputui.sources.host import HostSource
    from gputui.sources.nvml import NvmlSource
    from gputui.sources.processes import MeanShares, ProcessSource

    devices = NvmlSource()
    devices.watch_faults()
    if with_profile:
        devices.watch_profiles(_PROFILE_WITHIN_S)
    processes = ProcessSource(cpu=MeanShares())
    processes.watch_owners(_OWNERS_WITHIN_S)
    return look(devices, HostSource(counts_itself=False), processes)


def findings_of(snapshot: Snapshot) -> tuple[MachineFinding, ...]:
    """The findings that one look can show, with idle times from the record; `gputui watch` sees others, too."""
    history = History()
    record(history, snapshot)
    if any(idle_held(Scene(snapshot, history, {}))):
        from gputui.archive.idle import idle_since

        snapshot = snapshot._replace(idle_since=idle_since(snapshot.time))
    return Watch(is_single_look=True).take(snapshot, history)


def _demo() -> Snapshot:
    from gputui.sources.demo_machine import DemoMachine

    return DemoMachine().look(Attention(), 1.0)
