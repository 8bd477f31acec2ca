"""Processes on devices: who they are on the host, what they cost it, and what no process accounts for."""

from gputui.sources.processes.cpu import MeanShares
from gputui.sources.processes.source import ProcessSource, no_probe

__all__ = ["MeanShares", "ProcessSource", "no_probe"]
