"""Raises an exception at one line after another of the probe's start, marks, pauses for a fork and end.

Run with a stride: one of so many lines. A program without PyTorch; each round starts the probe, names a moment, forks,
and stops the probe. What a signal handler of the program raises is not tried: Python drops what is raised at a fork.
"""

import json
import os
import sys

from injecting import OWN, Injector

import gputui.probe
from gputui.probe import lifecycle
from gputui.probe.guards import boundary

ENTRIES = "start", "stop", "mark", "before_fork", "_enter", "_after_fork", "_close_in_child"
"""These enter the boundary in one line."""
injector = Injector(boundary.Part.enter, *(getattr(lifecycle, name) for name in ENTRIES))
CHILD_OK = 7


def life():
    """All that a program has the probe do; the child says by its status that it came through the fork."""
    gputui.probe.start()
    gputui.probe.mark("here")
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        lines = sorted(injector.reached) if injector.is_noting else []
        os.write(write, json.dumps([gputui.probe.status(), injector.has_raised, lines]).encode())
        os._exit(CHILD_OK)
    os.close(write)
    with os.fdopen(read) as said:
        _, has_raised, lines = json.loads(said.read())
    injector.has_raised = injector.has_raised or has_raised
    injector.reached.update(dict.fromkeys(map(tuple, lines), ""))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CHILD_OK
    lifecycle._enter(lifecycle._exit)  # as `atexit` does


def traced_life():
    sys.settrace(injector)
    try:
        life()
    finally:
        sys.settrace(None)


def fault_at(line, error):
    """What a program notices of an error at that line of the probe; "" for nothing."""
    for part in boundary.PARTS:
        part.reset()
    injector.arm(line, error)
    try:
        traced_life()
    except Exception as raised:  # noqa: BLE001 - whatever it is
        return f"{type(raised).__name__}: {raised}"
    injector.arm(None, None)
    gputui.probe.stop()
    gputui.probe.start()
    status = gputui.probe.status()
    gputui.probe.stop()
    return "" if status.startswith("/") else status


if __name__ == "__main__":
    gputui.probe.stop()
    traced_life()
    traced_life()
    injector.is_noting = False
    lines = sorted(injector.reached)[:: int(sys.argv[1])]
    faults = []
    for number, line in enumerate(lines):
        error = OWN[number % len(OWN)]
        if fault := fault_at(line, error):
            faults.append(f"{error.__name__} at {line}: {fault}")
    sys.stdout.write(json.dumps({"lines": len(lines), "faults": faults}) + "\n")
