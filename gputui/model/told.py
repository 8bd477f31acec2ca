"""What gputui on another node reports about that node."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.fleet.parts import FleetDevice, Holding, Node, NodeProblem, Place
from gputui.model.machine.finding import MachineFinding


class NodeLook(NamedTuple):
    """A node at one moment; `problem` is why it has no GPU, "" where it has some."""

    node: Node
    devices: tuple[FleetDevice, ...] = ()
    holdings: tuple[Holding, ...] = ()
    findings: tuple[MachineFinding, ...] = ()
    problem: str = ""


class Told(NamedTuple):
    """The newest look of a node and when it came (epoch seconds, 0: never), and why the node says nothing now."""

    place: Place
    look: NodeLook | None = None
    time: float = 0.0
    problem: NodeProblem | None = None
