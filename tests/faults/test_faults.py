"""No traceback, ever: each system call of a command fails once, and from then on; the command says a sentence and ends.

A part of the places is tried for every change, hundreds of each kind in the nightly run.
"""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.runs import FOR_GOOD, Fault, Runs
from tests.scale import SCALE, some

pytestmark = pytest.mark.long
FAULTS = {
    "no descriptor": Fault("open", errno.EMFILE, FOR_GOOD),
    "a file that is gone": Fault("open", errno.ENOENT),
    "a file that may not be opened": Fault("open", errno.EACCES),
    "a device that fails": Fault("read", errno.EIO),
    "a device that fails for good": Fault("read", errno.EIO, FOR_GOOD),
    "a full disk": Fault("write", errno.ENOSPC, FOR_GOOD),
    "no memory": Fault("memory", errno.ENOMEM, FOR_GOOD),
    "no socket": Fault("socket", errno.EMFILE, FOR_GOOD),
    "a connection that is refused": Fault("socket", errno.ECONNREFUSED),
    "no copy of a descriptor": Fault("descriptor", errno.EMFILE, FOR_GOOD),
    "a folder that may not be read": Fault("stat", errno.EACCES),
    "no thread": Fault("thread", errno.EAGAIN, FOR_GOOD),
    "a clock set back": Fault("time", -86400),
    "a clock set forward": Fault("time", 86400),
}
ENDINGS = {signal.SIGINT: {130, -signal.SIGINT}, signal.SIGTERM: {-signal.SIGTERM, 143}, signal.SIGHUP: {-1, 129}}
COMMANDS = ("--once --json", "attach", "doctor", "--once", "attach PID --once", "snapshot PID -o FILE")


def check_words(run: dict[str, Any]) -> None:
    """At most sentences of gputui's on standard error, and a whole document or none on standard output."""
    assert "Traceback" not in run["errors"], run
    assert all(line.startswith("gputui: ") for line in run["errors"].splitlines()), run


def statuses(fault: Fault) -> tuple[int, ...]:
    """Those that a command may end with; Python ends with 120 where at its end not even /dev/null takes a byte."""
    return (0, 1, 2, 120) if fault.kind == "write" else (0, 1, 2)


def lost_a_thread(run: dict[str, Any], fault: Fault) -> bool:
    """Python's own words where a new thread had no memory to begin with, and `Thread.start` may wait for ever."""
    return fault.kind == "memory" and "thread started by" in run["errors"]


SIGNALS = [Fault("signal", int(number)) for number in ENDINGS]
ALL_FAULTS = [*FAULTS.values(), *SIGNALS]
TOGETHER = [ALL_FAULTS] if SCALE == 1 else [[fault] for fault in ALL_FAULTS]
"""By day one test has all of them, as what is tried for all costs more; at night that would take hours."""


@pytest.mark.parametrize("faults", TOGETHER, ids=[faults[0].kind for faults in TOGETHER])
@pytest.mark.parametrize("command", some(COMMANDS, 2))
def test_a_fault_is_a_sentence_and_a_signal_ends_it_without_words(
    runs: Runs, record_property: Callable[[str, object], None], command: str, faults: list[Fault]
) -> None:
    tried = 0
    for fault, (well, *faulty) in zip(faults, runs.faulty(command, faults), strict=True):
        check_words(well)
        # there is no PyTorch whose memory it could save
        assert well["status"] == (command == "snapshot PID -o FILE"), well
        assert faulty or fault.kind not in ("open", "read", "signal")
        tried += len(faulty)
        for run in faulty:
            check_run(command, fault, run)
    record_property("count", f"{tried} calls")


def check_run(command: str, fault: Fault, run: dict[str, Any]) -> None:
    if fault in SIGNALS:
        assert run["errors"] == "", run
        was_sent = run["status"] or run["count"] >= run["place"]
        assert not was_sent or run["status"] in ENDINGS[signal.Signals(fault.error)], run
    elif not lost_a_thread(run, fault):
        check_words(run)
        assert run["status"] in statuses(fault), run
        if "--json" in command and not run["status"]:
            json.loads(run["output"])


LIMITED = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0})); sys.argv[0] = 'gputui'; "
    "from gputui.__main__ import main; sys.exit(main())"
)


def check_ended(done: subprocess.CompletedProcess[str], *statuses: int) -> None:
    check_words({"errors": done.stderr})
    assert done.returncode in (0, 1, *statuses), done


@pytest.mark.parametrize(("command", "limit"), some(product(COMMANDS, range(6, 41) if SCALE > 1 else (7, 10, 20)), 4))
def test_few_descriptors_are_a_sentence(runs: Runs, command: str, limit: int) -> None:
    check_ended(runs.once(command, sys.executable, "-c", LIMITED.format(limit)))


STREAMS = (">&-", ">/dev/full", "2>&-", "2>/dev/full", "<&- >&- 2>&-", "| true")


@pytest.mark.parametrize(("command", "streams"), some(product(COMMANDS, STREAMS), 5))
def test_streams_that_take_nothing_are_a_status(runs: Runs, command: str, streams: str) -> None:
    check_ended(runs.once(command, after=streams), 141)


HALF = "for f in meminfo stat self/cgroup loadavg diskstats; do mount --bind /dev/null /proc/$f; done"
HIDING = {
    **{how: f"mount -t proc -o {how} proc /proc" for how in ("hidepid=1", "hidepid=2", "subset=pid")},
    "half": HALF,
}


@pytest.mark.root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize(("command", "how"), some(product(COMMANDS, HIDING), 5))
def test_a_proc_that_hides_is_a_sentence(runs: Runs, command: str, how: str) -> None:
    check_ended(runs.once(command, "unshare", "--mount", "sh", "-c", f'({HIDING[how]}) 2>/dev/null; exec "$@"', "sh"))


@pytest.mark.root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("kib", [0, 4, 8, 16] if SCALE > 1 else [4])
def test_a_full_file_system_is_a_sentence(runs: Runs, tmp_path: Path, kib: int) -> None:
    fill = f"mount -t tmpfs -o size=4k none {tmp_path}; head -c {kib}k /dev/zero 2>/dev/null >{tmp_path}/filler"
    check_ended(runs.once("snapshot PID -o FILE", "unshare", "--mount", "sh", "-c", f'{fill}; exec "$@"', "sh"))
