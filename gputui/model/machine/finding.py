"""What is wrong with this machine: a finding about a device, a process or the host, with the numbers behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputui.model.machine.process import Identity
from gputui.model.weight import Weight

if TYPE_CHECKING:
    from gputui.model.fleet.parts import Place


class MachineFinding(NamedTuple):
    """`kind` names the rule; `evidence` are sentences with numbers; `remedy` says what to do.

    `device` is a `Device.key`, "" where it is about the host; `where` names the place for people: "GPU 3", "host".
    `process` is the process that it is about, None where it is about none or several. `since` is in epoch seconds;
    with `is_older`, it may have begun earlier, before anybody watched. `about` tells those of one
    kind and device apart. `node` is the machine of a fleet that it is about.
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
        """What tells it from others, from look to look."""
        return self.kind, self.device, self.process, self.about
