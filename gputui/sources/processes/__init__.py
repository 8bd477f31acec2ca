"""Processes on devices: what the host knows of them, and device memory that no process accounts for.

`source` joins what NVML and the host know of each PID, from `descriptions` (what hardly changes), `cpu`, `family`
(parents and workers), `ranks`, `rollups` (PSS), `namespace` (PIDs of containers) and `orphans`. `details` has
everything about one process for its screen, such as what it waits for (`waiting`). `unattributed` finds memory that no
process holds.
"""

from gputui.sources.processes.cpu import MeanShares
from gputui.sources.processes.source import ProcessSource

__all__ = ["MeanShares", "ProcessSource"]
