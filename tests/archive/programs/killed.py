"""Records into a file, one life after the other, and is killed in each:  killed.py FILE MOMENT...

A moment is the number of the write of the database's in the middle of which the life ends; libfaults.so is preloaded. A
life takes looks up where the one before ended, and this process says on a line of JSON what it wrote and what the file
has then.
"""

import ctypes
import itertools
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from gputui.archive import store
from gputui.archive.report import report
from gputui.commands.machine.record import EVERY_S, keep
from gputui.model.machine.snapshot import Snapshot
from tests.archive.test_archive import held, look

LIBRARY = ctypes.CDLL(None)
store.DETAILED_S, store._ROLL_EVERY_S = 1200, 300  # rows are joined within a few lives, and not after days
path, moments = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]


def looks(second: int, tell: int) -> Iterator[Snapshot]:
    """Looks from a time on; each tells that the one before is written."""
    processes = (held(100, 0, "ana", "4711", 20.0, 90), held(101, 1, "ben", None, 20.0, 0))
    for number in itertools.count():
        os.write(tell, b".")
        yield look(second + number * EVERY_S, (95, 0), processes)


def written(second: int, moment: int) -> int:
    """How many looks a life has begun."""
    reads, tells = os.pipe()
    pid = os.fork()
    if not pid:
        LIBRARY.faults_start(b"half", ctypes.c_long(moment), ctypes.c_long(1), int(signal.SIGKILL))
        keep(store.Archive(path), looks(second, tells))
    os.close(tells)
    with os.fdopen(reads, "rb") as told:
        count = len(told.read())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    return count


second = first = 10_000_000
for moment in moments:
    begun = written(second, moment)
    life = {"moment": moment, "first": second, "begun": begun, "newest": 0, "watched_s": 0.0, "integrity": "ok"}
    if begun or second > first:  # else it ended before there was a file to look at
        database = sqlite3.connect(path)
        (life["integrity"],) = database.execute("PRAGMA integrity_check").fetchone()
        (newest,) = database.execute("SELECT max(time) FROM device_time").fetchone()
        life["newest"] = newest or 0
        life["watched_s"] = max((each.watched * 3600 for each in report(database, 0, 1e12).devices), default=0.0)
        database.close()
    sys.stdout.write(f"{json.dumps(life)}\n")
    second += begun * int(EVERY_S)
