"""All that is known of a fleet at one moment: what screens get from the thread that asks the server."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from gputui.model.fleet.exporters import Found, Quantity
from gputui.model.fleet.parts import FleetDevice, Holding, Job, JobName, Node, Place, Sign


class TroubleKind(str, Enum):
    """Why the server gives no answer, as far as code depends on it."""

    UNREACHABLE = "unreachable"
    SLOW = "slow"
    FORBIDDEN = "forbidden"
    NOT_PROMETHEUS = "not_prometheus"
    TOO_LARGE = "too_large"
    REFUSED = "refused"
    FAILING = "failing"
    CERTIFICATE = "certificate"


class Trouble(NamedTuple):
    """Why the figures are old: a sentence with its remedy, and since when (epoch seconds)."""

    kind: TroubleKind
    text: str
    since: float


class Cost(NamedTuple):
    """What the server was asked so far; `samples` are those that it says it has read, 0 if it does not say."""

    questions: int = 0
    received_bytes: int = 0
    samples: int = 0


class Fleet(NamedTuple):
    """`time` is when the nodes were asked for, 0 before the first answer. `server` is the server's address for people.

    `devices`, `holdings` and `ranks` have the nodes and jobs that were asked for in detail. `jobs` is None until the
    list was asked for. `known` are the quantities that any exporter reports. `history` has the use of nodes in the last
    hour, as shares of 1, the oldest first. `unanswered` has kinds of findings that could not be asked for, and why.
    """

    server: str
    time: float = 0.0
    scrape_interval_s: float = 0.0
    found: tuple[Found, ...] = ()
    known: frozenset[Quantity] = frozenset()
    has_processes: bool = False
    nodes: tuple[Node, ...] = ()
    devices: Mapping[Place, tuple[FleetDevice, ...]] = {}
    holdings: Mapping[Place, tuple[Holding, ...]] = {}
    jobs: tuple[Job, ...] | None = None
    ranks: Mapping[JobName, tuple[Holding, ...]] = {}
    signs: tuple[Sign, ...] = ()
    signs_time: float = 0.0
    unanswered: tuple[tuple[str, str], ...] = ()
    history: Mapping[Place, tuple[float | None, ...]] = {}
    trouble: Trouble | None = None
    cost: Cost = Cost()

    @property
    def gpus(self) -> int:
        """How many GPUs there are, each counted once."""
        return sum(node.gpus for node in self.nodes)
