"""What is on screen of a fleet."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.fleet.parts import JobName, Place


class FleetAttention(NamedTuple):
    """The nodes and jobs whose parts are shown: no others are asked for in detail. `wants_jobs`: the jobs are shown."""

    nodes: frozenset[Place] = frozenset()
    jobs: frozenset[JobName] = frozenset()
    wants_jobs: bool = False
    with_history: frozenset[Place] = frozenset()
    """Nodes whose graph is on screen."""
