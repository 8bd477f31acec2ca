"""One moment of the whole machine: what crosses from the sampler's thread to the screens."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.device import DeviceLook
from gputui.model.host import Host
from gputui.model.process import Identity, ProcessDetails, ProcessLook


class Attention(NamedTuple):
    """What somebody looks at, beyond what is always read: dear readings are taken for these alone.

    `devices` are the `Device.key`s whose PCIe and NVLink rates are on screen; `process` is the one whose details are.
    """

    devices: frozenset[str] = frozenset()
    process: Identity | None = None


class Snapshot(NamedTuple):
    """What all screens show, of one moment.

    `time` is in epoch seconds. `devices_age_s` is 0 while the devices answer in time and the age of what is shown
    while a call into the driver hangs. `details` belong to the process that a screen asked for, if any.
    """

    time: float = 0.0
    number: int = 0
    interval_s: float = 1.0
    is_demo: bool = False
    devices: DeviceLook = DeviceLook()
    devices_age_s: float = 0.0
    host: Host = Host()
    processes: ProcessLook = ProcessLook()
    details: ProcessDetails | None = None


NOTHING_YET = Snapshot()
