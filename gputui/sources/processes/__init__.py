"""Processes on devices: what the host knows of them and what they cost it; memory that no process accounts for.

`source` joins what NVML and the host know of each PID: `descriptions` of what hardly changes, `cpu`, `family` (parents
and workers), `ranks`, `rollups` (PSS), `namespace` (PIDs of containers), `orphans`, `waiting`. `details` is everything
about one process, for its screen; `unattributed` what no process holds.
"""

from gputui.sources.processes.cpu import MeanShares
from gputui.sources.processes.source import ProcessSource

__all__ = ["MeanShares", "ProcessSource"]
