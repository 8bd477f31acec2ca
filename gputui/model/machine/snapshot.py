"""The whole machine at one moment: what goes from the sampler's thread to the screens."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.host import Host
from gputui.model.machine.process import Identity, ProcessDetails, ProcessLook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gputui.model.fleet.attention import FleetAttention
    from gputui.model.fleet.fleet import Fleet


class Attention(NamedTuple):
    """What is on screen beyond the overview: expensive readings are taken for nothing else.

    `devices` are the `Device.key`s whose PCIe and NVLink rates are shown, `process` is the process whose details are
    shown, `fleet` is what is on screen of many machines.
    """

    devices: frozenset[str] = frozenset()
    process: Identity | None = None
    fleet: FleetAttention | None = None


class Snapshot(NamedTuple):
    """What all screens show.

    `time` is in epoch seconds. `devices_age_s` is 0 while the devices answer in time, and the age of `devices` while a
    call into the driver hangs. `details` belong to the process that a screen asked for, if any. `example` is the title
    of the recorded program that the demonstration shows in addition, "" without one. `findings` are what this snapshot
    and those before it show to be wrong with the machine, the worst first. `fleet` is what is known of many machines;
    nothing is known of this one then. `idle_since` (by `Device.key`) is since when (epoch seconds) GPUs were held and
    not used before gputui started, by the record.
    """

    time: float = 0.0
    number: int = 0
    interval_s: float = 1.0
    is_demo: bool = False
    example: str = ""
    devices: DeviceLook = DeviceLook()
    devices_age_s: float = 0.0
    host: Host = Host()
    processes: ProcessLook = ProcessLook()
    details: ProcessDetails | None = None
    findings: tuple[MachineFinding, ...] = ()
    fleet: Fleet | None = None
    idle_since: Mapping[str, float] = MappingProxyType({})


NOTHING_YET = Snapshot()
