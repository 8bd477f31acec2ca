"""What is on screen of a fleet: nothing else is asked for in detail."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.fleet.parts import JobName, Place


class FleetAttention(NamedTuple):
    """Nodes and jobs whose parts are shown; `wants_jobs`: the list of jobs is shown."""

    nodes: frozenset[Place] = frozenset()
    jobs: frozenset[JobName] = frozenset()
    wants_jobs: bool = False
    with_history: frozenset[Place] = frozenset()
    """Nodes with a graph on screen."""
