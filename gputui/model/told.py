"""What a node says of itself, where gputui runs there."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.fleet.parts import FleetDevice, Holding, Node, NodeProblem, Place
from gputui.model.machine.finding import MachineFinding


class NodeLook(NamedTuple):
    """A node at one moment; `problem` is why there is no GPU, "" where there are some."""

    node: Node
    devices: tuple[FleetDevice, ...] = ()
    holdings: tuple[Holding, ...] = ()
    findings: tuple[MachineFinding, ...] = ()
    problem: str = ""


class Told(NamedTuple):
    """The newest that is known of a node: what it said and when, and why it says nothing now."""

    place: Place
    look: NodeLook | None = None
    time: float = 0.0
    problem: NodeProblem | None = None
