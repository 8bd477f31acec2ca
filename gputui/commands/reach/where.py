"""Where attached processes run: on this machine, or on others that ssh reaches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from gputui.commands.parser import pid_of
from gputui.commands.reach.probes import put_probes_in, ranks_in_place_of, word_about
from gputui.errors import UsageError
from gputui.output import narrate
from gputui.protocol.relaying import NO, YES
from gputui.sources.at_once import at_once
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.far import FarClient, Place, place_of

if TYPE_CHECKING:
    from gputui.sampler import Machine


AT_A_TIME, OTHERS_WITHIN_S = 8, 300.0
"""How many ssh begin together: an sshd refuses more than ten that have not logged in. The seconds are for thousands."""


class Here:
    """This machine."""

    node = ""

    def attach(self, pid: int) -> ProbeClient:
        """A connection to the probe of a process; raises GputuiError."""
        return listing.attach(pid)

    def check(self, pid: int) -> None:
        """Raise the GputuiError of a process that cannot be attached to."""
        listing.attach(pid).close()

    def prepare(self, pids: list[int], *, is_assumed: bool, limit_s: float | None) -> None:
        """Put the probe into processes that have none, after a question unless `is_assumed`."""
        put_probes_in(pids, is_assumed=is_assumed, limit_s=limit_s)

    def machine(self) -> Machine:
        """What is read beside the probes, and shown below the attach screens."""
        from gputui.sources.machine import LiveMachine

        return LiveMachine()


class There(Here):
    """Other machines. Connections are made before screens open, so that ssh can ask for a password."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = {place.pid: place for place in places}
        nodes = list(dict.fromkeys(place.node for place in places))
        self.node = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
        self._prepared: dict[int, ProbeClient] = {}
        self._may_ask = True
        self._question = Lock()
        self._words: dict[str, str] = {}
        """The user's answer for each program."""

    def attach(self, pid: int) -> ProbeClient:
        """The connection that `prepare` made, or a new one; after `prepare`, ssh no longer asks for passwords."""
        return self._prepared.pop(pid, None) or self._connected(pid, is_assumed=False, may_ask=self._may_ask)

    def check(self, pid: int) -> None:
        """A prepared connection needs no check."""
        if pid not in self._prepared:
            self.attach(pid).close()

    def prepare(self, pids: list[int], *, is_assumed: bool, limit_s: float | None) -> None:  # noqa: ARG002 - the relay has its own limit
        """Connect to the processes: to the first of each machine alone, as ssh may ask, then to several at a time."""
        first: dict[str, int] = {}
        for pid in pids:
            first.setdefault(self._places[pid].node, pid)

        def connect(pid: int) -> None:
            self._prepared[pid] = self._connected(pid, is_assumed=is_assumed, may_ask=pid in first.values())

        for pid in first.values():
            connect(pid)
        others = [pid for pid in dict.fromkeys(pids) if pid not in self._prepared]
        at_once(connect, others, time.monotonic() + OTHERS_WITHIN_S, AT_A_TIME)
        self._may_ask = False

    def machine(self) -> Machine:
        """A machine without readings: this machine's readings would say nothing about the processes."""
        from gputui.sources.named_machine import NamedMachine

        return NamedMachine(time.time, self.node)

    def _connected(self, pid: int, *, is_assumed: bool, may_ask: bool) -> ProbeClient:
        place = self._places[pid]

        def answer(program: str) -> str:
            if is_assumed:
                return YES
            with self._question:  # all ranks of a job run one program, which is asked about once
                if program not in self._words:
                    asked_for = dict.fromkeys(map(str, self._places.values()), program)
                    self._words[program] = word_about(asked_for) if self._may_ask else NO
                return self._words[program]

        return FarClient(place, answer, narrate, may_ask=may_ask)


HERE = Here()


def where_of(words: Sequence[str]) -> tuple[Here, list[int]]:
    """The machines and the processes that words such as 123 or node:123 name. Raises UsageError."""
    if not any(":" in word for word in words):
        return HERE, list(dict.fromkeys(rank for word in words for rank in ranks_in_place_of(pid_of(word))))
    places = list(dict.fromkeys(place_of(word) if ":" in word else Place("", pid_of(word)) for word in words))
    if not all(place.node for place in places):
        cause = "One gputui attach looks at processes of this machine or of others."
        raise UsageError(cause, "Name those here as NODE:PID, too, or attach to them in another terminal.")
    first: dict[int, Place] = {}
    for place in places:
        kept = first.setdefault(place.pid, place)
        if kept != place:
            narrate(f"{place} is left out: {kept} has the same PID. Attach to it in another terminal.")
    return There(list(first.values())), list(first)
