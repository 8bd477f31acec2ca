"""What PyTorch's allocators hold in this machine's processes, for documents. Only counters: no program is stopped."""

from __future__ import annotations

from collections.abc import Iterable

from gputui.errors import GputuiError
from gputui.explain.memory.drivers import physical_device
from gputui.model.machine.device import DeviceLook
from gputui.sources.probe.elsewhere import ProbesElsewhere
from gputui.sources.probe.listing import list_probes
from gputui.sources.probe.told import ProbeInfo
from gputui.sources.probe.turns import Turns

PROBES_WITHIN_S = 1.0
"""Seconds by which programs that do not answer delay a look at most."""
AT_A_TIME = 8
Allocators = dict[tuple[int, str], dict[str, int]]
"""What PyTorch holds, by PID and `Device.key`."""


class Probes:
    """Asks the probes of the processes here."""

    def __init__(self) -> None:
        self._turns, self._elsewhere = Turns(), ProbesElsewhere()

    def allocators(self, look: DeviceLook) -> Allocators:
        """What PyTorch holds on the devices of a look, in processes whose probes answer in time."""
        pids = {use.pid for use in look.uses if use.pid}
        try:
            here = list_probes(within_s=PROBES_WITHIN_S, at_a_time=AT_A_TIME, turns=self._turns)
            return allocators_of((*here, *self._elsewhere.read(pids, PROBES_WITHIN_S, AT_A_TIME)), look)
        except GputuiError:  # the folders of their sockets cannot be read: nothing is known of any
            return {}


def allocators_of(probes: Iterable[ProbeInfo], look: DeviceLook) -> Allocators:
    """What PyTorch holds in these processes; a device that is not found in the look is left out."""
    found: Allocators = {}
    for probe in probes:
        devices = {device.index: device for device in probe.greeting.devices} if probe.greeting else {}
        for counters in probe.held:
            known = devices.get(counters.device)
            physical = physical_device(known, look) if known else None
            if physical is not None:
                told = {"reserved_bytes": counters.reserved_bytes, "allocated_bytes": counters.allocated_bytes}
                found[probe.pid, physical.key] = told
    return found
