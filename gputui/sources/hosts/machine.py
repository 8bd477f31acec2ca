"""Many nodes as a machine for the sampler: a look has the newest that each node sent, and waits for none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from gputui.errors import GputuiError
from gputui.explain.fleet.gathering import Gathering
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import Place
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.far_machine import FarMachine
from gputui.sources.hosts.connection import Connection
from gputui.sources.hosts.line import Line, Speaker

TOGETHER, APART_S = 8, 0.25
"""How many connections begin at a time, and how far apart: an sshd, such as a jump host's, refuses more than ten
that have not logged in yet."""
INTERVAL_AT_LEAST_S = 2.0
"""The width of a point in the history."""
SILENT_LOOKS, SILENT_AT_LEAST_S = 5.0, 15.0
"""After how many intervals, and at least seconds, without a look a connection is given up."""
FIRST_WITHIN_S = 1.0
"""How long the first look waits for nodes, so that the first picture has some."""

Reach = Callable[[str, str], Speaker]
"""Connects to a node, given its name and the arguments of gputui there."""


class HostsMachine(FarMachine):
    """The nodes that ssh reaches; `look` returns at once with the newest of each."""

    def __init__(
        self,
        nodes: Sequence[str],
        interval_s: float,
        clock: Callable[[], float] = time.time,
        reach: Reach = Connection,
    ) -> None:
        """Connect to the nodes, each of which takes a look once an interval."""
        self._interval_s, self._clock = max(INTERVAL_AT_LEAST_S, interval_s), clock
        self._gathering = Gathering(self._interval_s)
        self._has_news = threading.Event()
        self._number = 0
        self._snapshot = Snapshot()
        arguments = f"--json --interval {self._interval_s:g}"
        self._lines = _lines(nodes, arguments, reach, self._has_news.set, clock)
        for number, line in enumerate(self._lines):
            line.start(number // TOGETHER * APART_S, max(SILENT_AT_LEAST_S, SILENT_LOOKS * self._interval_s))

    def look(self, attention: Attention, interval_s: float) -> Snapshot:  # noqa: ARG002 - everything is told anyway
        """The newest that is known of all nodes; the first look waits a moment for it."""
        if not self._number:
            self._has_news.wait(FIRST_WITHIN_S)
        if self._has_news.is_set() or not self._number:
            self._has_news.clear()
            fleet, findings = self._gathering.take([line.told for line in self._lines], self._clock())
            self._snapshot = self._snapshot._replace(fleet=fleet, findings=findings)
        self._number += 1
        return self._snapshot._replace(time=self._clock(), number=self._number, interval_s=interval_s)

    def close(self) -> None:
        """End all connections, without waiting."""
        for line in self._lines:
            line.close()


def hosts_once(
    nodes: Sequence[str], clock: Callable[[], float] = time.time, reach: Reach = Connection
) -> tuple[Fleet, tuple[MachineFinding, ...]]:
    """The fleet after one look of each node, with their findings. Raises `GputuiError` where no node has answered."""
    lines = _lines(nodes, "--once --json", reach, lambda: None, clock)
    for number, line in enumerate(lines):
        line.start(number // TOGETHER * APART_S, None)
    for line in lines:
        line.ended.wait()
    told = [line.told for line in lines]
    problem = told[0].problem
    if problem and not any(of.look for of in told):
        others = f" None of the {len(told)} nodes has answered." if len(told) > 1 else ""
        raise GputuiError(problem.cause, f"{problem.remedy}{others}".lstrip())
    return Gathering(0).take(told, clock())


def _lines(
    nodes: Sequence[str], arguments: str, reach: Reach, changed: Callable[[], object], clock: Callable[[], float]
) -> list[Line]:
    def reaching(node: str) -> Callable[[], Speaker]:
        return lambda: reach(node, arguments)

    places = sorted((Place("", node) for node in nodes), key=lambda place: place.order)
    return [Line(place, reaching(place.node), changed, clock) for place in places]
