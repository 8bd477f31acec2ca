"""Whose a process is: control groups, environments, and what others leave on a node for anyone to read."""

from gputui.sources.owners.reader import Subject
from gputui.sources.owners.source import Owners

__all__ = ["Owners", "Subject"]
