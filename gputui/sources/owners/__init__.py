"""Whose a process is, by control groups, environments, and files that others leave on a node for all to read."""

from gputui.sources.owners.reader import Subject
from gputui.sources.owners.source import Owners

__all__ = ["Owners", "Subject"]
