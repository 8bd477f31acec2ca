"""`gputui --once`: looks, prints, and returns the exit status."""

from __future__ import annotations

from gputui.model.snapshot import Snapshot
from gputui.once.look import look
from gputui.output import is_in_color, output_width, put
from gputui.settings import Settings

WIDTH_OF_A_PIPE = 100
"""Columns where standard output is not a terminal and COLUMNS is not set."""


def run_once(settings: Settings, *, demo: bool, as_json: bool) -> int:
    """Print one look; the exit status is 1 where NVML could not be read, and the rest is printed all the same."""
    snapshot = _demo() if demo else read_machine()
    if as_json:
        import json

        from gputui.once.document import document

        put(json.dumps(document(snapshot), allow_nan=False) + "\n")
    else:
        from gputui.once.table import plain

        put(plain(snapshot, output_width(WIDTH_OF_A_PIPE), in_color=is_in_color(settings)))
    return 1 if snapshot.devices.problem else 0


def read_machine() -> Snapshot:
    """One look at this machine; a driver that does not answer is a problem of the snapshot."""
    from gputui.sources.host import HostSource
    from gputui.sources.nvml import NvmlSource
    from gputui.sources.processes import MeanShares, ProcessSource

    return look(NvmlSource(), HostSource(counts_itself=False), ProcessSource(cpu=MeanShares()))


def _demo() -> Snapshot:
    import time

    from gputui.sources.demo import DemoSource

    devices, host, processes = DemoSource().read()
    return Snapshot(time=time.time(), number=1, devices=devices, host=host, processes=processes)
