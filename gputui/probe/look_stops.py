"""The stops of one look: what each of them takes, and the look that they make up."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Any

from gputui.probe.budget import NOTHING_LEFT_OUT
from gputui.probe.encoding import PAUSE_S

if TYPE_CHECKING:
    from gputui.probe.requests import LookRequest

MAX_PARTS = 10
"""How many stops one look on request may make."""
_SEGMENTS = 64
"""How many segments of a map are freed between two pauses in which other threads run."""


class LookUnderWay:
    """What was asked for, and what the stops so far have read and cost."""

    def __init__(self, request: LookRequest) -> None:
        self.request = request
        self.plan = NOTHING_LEFT_OUT._replace(method=request.method)
        """Made in the first stop, which reads how many blocks there are."""
        self.stops = 0
        self.longest_ms = self.stopped_ms = self.cpu_ms = 0.0
        self.before_map: dict[str, Any] | None = None
        """The look with the inventory, where the map gets a stop of its own, which is then the last."""

    def add(self, cost: dict[str, float]) -> None:
        """Account for one stop."""
        self.stops += 1
        self.longest_ms = max(self.longest_ms, cost["pause_ms"])
        self.stopped_ms += cost["pause_ms"]
        self.cpu_ms += cost["probe_cpu_ms"]

    @property
    def method(self) -> str:
        """The inventory that the next stop takes."""
        return self.plan.method if self.before_map is None else ""

    @property
    def has_map(self) -> bool:
        """Whether the next stop takes the map."""
        return self.plan.has_map and not (self.plan.is_map_apart and self.before_map is None)

    def goes_on_after(self, look: dict[str, Any]) -> bool:
        """Whether another stop follows the one that has taken `look`."""
        if self.before_map is not None:
            return False
        if self.request.is_urgent and not is_complete(look) and self.stops < MAX_PARTS:
            return True
        if self.plan.is_map_apart:
            self.before_map = look
            return True
        return False

    def whole(self, look: dict[str, Any]) -> dict[str, Any]:
        """The last stop's look, with what earlier stops have read and with the cost of all."""
        earlier = self.before_map
        if earlier is not None:
            look["problems"] = [*earlier["problems"], *look["problems"][len(self.plan.problems) :]]
            look["inventory"] = inventory = earlier["inventory"]
            if inventory is not None and earlier["statistics"] != look["statistics"]:
                inventory["is_of_one_moment"] = False
        look["cost"] = {"pause_ms": self.longest_ms, "probe_cpu_ms": self.cpu_ms}
        return look


def is_complete(look: dict[str, Any]) -> bool:
    """Whether the inventory, if there is one, has all tensors."""
    return look["inventory"] is None or bool(look["inventory"]["is_complete"])


def let_map_go(look: dict[str, Any]) -> None:
    """Free the map of a stop that another follows, a few segments at a time, so that other threads run."""
    segments = look["map"].segments if look["map"] is not None else []
    while segments:
        del segments[-_SEGMENTS:]
        sleep(PAUSE_S)
