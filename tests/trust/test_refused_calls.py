"""System calls fail in a program that has a probe: the probe fails, the program goes on, and the next viewer is served.

The program makes no such calls of its own meanwhile, so those that fail are the probe's: its start, and a conversation.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable

import pytest

from gputui.errors import GputuiError
from gputui.sources.probe import listing
from tests.attach.children import LIMIT_S, Child, Python, wait_until
from tests.faults.runs import FOR_GOOD, Fault
from tests.scale import scaled

PROGRAM = """
    import ctypes, gputui.probe, mmap, sys, time, torch

    weights = [torch.zeros(1024, 256, device="cuda") for _ in range(8)]
    gputui.probe.stop()
    library = ctypes.CDLL(None)
    with open("told", "r+b") as file:
        told = mmap.mmap(file.fileno(), 2)
    kind, place, lasting, error = sys.argv[1], *map(int, sys.argv[2:])
    library.faults_start(kind.encode(), ctypes.c_long(place), ctypes.c_long(lasting), error)
    gputui.probe.start()
    told[0] = 1
    results = set()
    while not told[1]:
        results.add(sum(range(1000)))
        time.sleep(0.001)
    count = library.faults_count()
    library.faults_start(b"none", 0, 0, 0)
    print("count", count, *results, flush=True)
    if gputui.probe.status().startswith("off: "):  # it has said so
        gputui.probe.start()
    print("again", gputui.probe.status(), flush=True)
    while sys.stdin.readline() == "restart\\n":
        gputui.probe.stop()
        gputui.probe.start()
        print("again", gputui.probe.status(), flush=True)
    sys.exit(3)
"""
FAULTS = {
    "no descriptor": Fault("open", errno.EMFILE, FOR_GOOD),
    "a file that may not be opened": Fault("open", errno.EACCES),
    "a device that fails": Fault("read", errno.EIO),
    "a device that fails for good": Fault("read", errno.EIO, FOR_GOOD),
    "no memory": Fault("memory", errno.ENOMEM, FOR_GOOD),
    "no socket": Fault("socket", errno.ENOBUFS, FOR_GOOD),
    "a connection that is reset": Fault("socket", errno.ECONNRESET),
    "no pipe": Fault("descriptor", errno.EMFILE, FOR_GOOD),
    "a folder that may not be read": Fault("stat", errno.EACCES),
    "no thread": Fault("thread", errno.EAGAIN, FOR_GOOD),
}
NO_THREAD = "Exception ignored in thread started by: "
"""What Python says of a thread that had no memory for its first function: no code of the probe has run in it."""
PLACES = scaled(1, 20)
"""How many of the calls fail, one at a time."""


class Failing:
    """Programs in which calls fail while a viewer attaches and looks."""

    def __init__(self, python: Python) -> None:
        self._python = python
        self.faults: list[str] = []

    def run(self, fault: Fault, place: int) -> int:
        """Note what is wrong if that call fails; how many such calls there were."""
        (self._python.folder / "told").write_bytes(bytes(2))
        words = fault.kind, str(place), str(fault.lasting), str(fault.error)
        preload = self._python.environment["LD_PRELOAD"] + ":libfaults.so"
        child = self._python.fork(PROGRAM, *words, modules=("torch",), LD_PRELOAD=preload)
        met = f"{fault} at {place}"
        with (self._python.folder / "told").open("r+b") as file, mmap.mmap(file.fileno(), 2) as told:
            wait_until(lambda: told[0] or child.process.poll() is not None, "the beginning")
            said = self._talk(child)
            told[1] = 1
        count, *results = child.expect("count").split()
        again = child.expect("again")
        after = self._talk(child)
        if after and fault.kind == "memory":
            child.say("restart")
            child.expect("again")
            after = self._talk(child)
        child.say("end")
        ended = child.ended(), "" if self._is_of_python(child, fault) else child.errors, results
        if ended != (3, "", [str(sum(range(1000)))]) or (after and place):
            self.faults.append(f"{met}: {said!r}, then {again!r}, {after!r}, {ended}")
        assert place or not said, said
        return int(count)

    def _is_of_python(self, child: Child, fault: Fault) -> bool:
        lines = child.errors.splitlines()
        return fault.kind == "memory" and len(lines) == 2 and lines[0].startswith(NO_THREAD)

    def _talk(self, child: Child) -> str:
        """Attach, read counters and look; what went wrong."""
        try:
            with listing.attach(child.pid) as client:
                client.statistics()
                looks = [client.look(wait_s=LIMIT_S) for _ in range(2)]
        except GputuiError as error:
            return str(error)
        owners = [{storage.owner for storage in look.inventory.storages} for look in looks if look.inventory]
        is_named = len(owners) == len(looks) and all("weights[0]" in names for names in owners)
        return "" if is_named else f"{[look.problems for look in looks]} {owners}"


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_call_that_fails_in_the_probe_is_not_the_programs_fault(
    cuda_python: Python, fault: Fault, record_property: Callable[[str, object], None]
) -> None:
    programs = Failing(cuda_python)
    last = programs.run(fault, 0)
    record_property("count", f"{min(last, PLACES)} of {last} calls")
    for number in range(min(last, PLACES)):
        programs.run(fault, 1 + (2 * number + 1) * last // (2 * min(last, PLACES)))
    assert programs.faults == []
