"""Linux's /proc, read cheaply: how its files are read (`files`) and what is in them (`formats`).

It exists beside psutil for what psutil does not have (what a process waits for, its PID in other namespaces, that
hidepid hides it) and because a look at a thousand processes with psutil takes several times as long.
"""

from gputui.sources.procfs.files import ENDED, NOT_OFFERED, PID_MAX, SECOND_LOOK, ProcFs, SystemCall, user_name
from gputui.sources.procfs.formats import TICKS_PER_S, Rollup, Stat, Status, StorageTraffic

__all__ = [
    "ENDED",
    "NOT_OFFERED",
    "PID_MAX",
    "SECOND_LOOK",
    "TICKS_PER_S",
    "ProcFs",
    "Rollup",
    "Stat",
    "Status",
    "StorageTraffic",
    "SystemCall",
    "user_name",
]
