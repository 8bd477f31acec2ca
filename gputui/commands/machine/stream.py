"""`gputui --json`: a once document for each look, a line each, until the reader goes."""

from __future__ import annotations

from threading import Event

from gputui.commands.machine.looks import looks
from gputui.once.allocators import Probes
from gputui.once.document import document
from gputui.output import put_document
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.machine import LiveMachine


def print_documents(interval_s: float, *, is_demo: bool) -> int:
    """Print a document for each look, without end: Ctrl-C and a closed pipe are raised."""
    machine = DemoMachine() if is_demo else LiveMachine()
    probes = Probes()
    try:
        for snapshot in looks(machine, interval_s, Event().wait, needs_driver=False):
            allocators = {} if is_demo else probes.allocators(snapshot.devices)
            put_document(document(snapshot, allocators=allocators))
    finally:
        machine.close()
    return 0
