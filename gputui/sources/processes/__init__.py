"""Processes on devices: what the host knows of them and what they cost it; memory that no process accounts for."""

from gputui.sources.processes.cpu import MeanShares
from gputui.sources.processes.source import ProcessSource

__all__ = ["MeanShares", "ProcessSource"]
