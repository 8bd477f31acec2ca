"""Where attached processes run: on this machine, or on another one that ssh reaches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputui.commands.parser import pid_of
from gputui.commands.probes import put_probes_in, ranks_in_place_of, word_about
from gputui.errors import UsageError
from gputui.output import narrate
from gputui.protocol.relaying import NO, YES
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.far import FarClient, Place, place_of

if TYPE_CHECKING:
    from gputui.sampler import Machine


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
    """Another machine. Connections are made before screens open, so that ssh can ask for a password."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._prepared: dict[int, ProbeClient] = {}
        self._may_ask = True

    def attach(self, pid: int) -> ProbeClient:
        """The connection that was prepared, or else a new one, for which ssh asks nothing after `prepare`."""
        return self._prepared.pop(pid, None) or self._connected(pid, is_assumed=False)

    def check(self, pid: int) -> None:
        """A prepared connection needs no check."""
        if pid not in self._prepared:
            self.attach(pid).close()

    def prepare(self, pids: list[int], *, is_assumed: bool, limit_s: float | None) -> None:  # noqa: ARG002 - the relay has its own limit
        """Connect to the processes."""
        for pid in dict.fromkeys(pids):
            self._prepared[pid] = self._connected(pid, is_assumed=is_assumed)
        self._may_ask = False

    def machine(self) -> Machine:
        """A machine without readings: those of this one have nothing to do with the processes."""
        from gputui.sources.named_machine import NamedMachine

        return NamedMachine(time.time, self.node)

    def _connected(self, pid: int, *, is_assumed: bool) -> ProbeClient:
        place = Place(self.node, pid)

        def answer(program: str) -> str:
            if is_assumed:
                return YES
            return word_about({str(place): program}) if self._may_ask else NO

        return FarClient(place, answer, narrate, may_ask=self._may_ask)


HERE = Here()


def where_of(words: Sequence[str]) -> tuple[Here, list[int]]:
    """The machine and the processes that words such as 123 or node:123 name. Raises UsageError for several machines."""
    if not any(":" in word for word in words):
        return HERE, list(dict.fromkeys(rank for word in words for rank in ranks_in_place_of(pid_of(word))))
    places = [place_of(word) if ":" in word else Place("", pid_of(word)) for word in words]
    nodes = list(dict.fromkeys(place.node for place in places))
    if len(nodes) > 1:
        cause = "One gputui attach looks at processes of one machine."
        raise UsageError(cause, "Attach to those of another one in another terminal.")
    return There(nodes[0]), [place.pid for place in places]
