"""What is wrong with this machine: a finding about a device, a process or the host, with the numbers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputui.model.machine.process import Identity
from gputui.model.weight import Weight

if TYPE_CHECKING:
    from gputui.model.fleet.parts import Place


class MachineFinding(NamedTuple):
    """`kind` names the rule; `evidence` are sentences with numbers; `remedy` says what to do.

    `device` is a `Device.key`, "" for a finding about the host; `where` is the place in words: "GPU 3", "host".
    `process` is None for a finding about no process or about several. `since` is in epoch seconds; with `is_older`, the
    finding may have begun earlier, before gputui watched. `about` tells findings of the same kind and device apart.
    `node` is the machine of a fleet.
    """

    kind: str
    weight: Weight
    where: str
    title: str
    evidence: tuple[str, ...]
    remedy: str
    since: float
    is_older: bool = False
    device: str = ""
    process: Identity | None = None
    about: str = ""
    node: Place | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same finding in later looks, and for no other finding."""
        return self.kind, self.device, self.process, self.about
