"""Memory of a device that no visible process accounts for, and the likely cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse
from gputui.model.machine.process import Process, ProcessState, Unattributed
from gputui.model.reading import Absent, value_of
from gputui.units import GIB, MIB

WORTH_REPORTING_BYTES = 16 * MIB
"""The driver's own bookkeeping takes less; no process has a CUDA context that small."""

INSTANCE_WORTH_REPORTING_BYTES = 64 * MIB
"""A MIG instance holds some tens of MiB without any process."""

_RESERVE_AT_MOST_BYTES = 2 * GIB
"""The driver reserves up to about 1 % of a board's memory for itself; a larger remainder has another cause."""


PIDS_AT_MOST = 8
"""How many PIDs a cause names."""


class Case(NamedTuple):
    """A device with more in use than its processes hold."""

    device: Device
    memory: DeviceMemory
    remainder_bytes: int
    holders: tuple[tuple[DeviceUse, Process], ...]
    is_private: bool

    @property
    def unknown(self) -> list[DeviceUse]:
        """The uses whose memory NVML does not report."""
        return [use for use, _ in self.holders if isinstance(use.used_bytes, Absent)]

    def pids(self, *states: ProcessState) -> str:
        """The PIDs of processes in one of these states, in words; "" where there are none."""
        return _pids_in_words({process.pid for _, process in self.holders if process.state in states})


def _pids_in_words(pids: set[int]) -> str:
    """ "PID 1, 2", or "PID 1, 2 and 7 more"; "" if there are none."""
    listed = ", ".join(map(str, sorted(pids)[:PIDS_AT_MOST]))
    more = f" and {len(pids) - PIDS_AT_MOST:,} more" if len(pids) > PIDS_AT_MOST else ""
    return f"PID {listed}{more}" if pids else ""


def _unknown(case: Case) -> str:
    if not case.unknown:
        return ""
    pids = {use.pid for use in case.unknown}
    who = " and ".join(filter(None, (_pids_in_words(pids - {0}), "processes in other containers" if 0 in pids else "")))
    reason = next(use.used_bytes.reason for use in case.unknown if isinstance(use.used_bytes, Absent))
    return f"an upper bound: it includes the memory of {who}, which is not known ({reason})"


def _ended(case: Case) -> str:
    pids = case.pids(ProcessState.ZOMBIE, ProcessState.VANISHED)
    return f"what is left of {pids}, which ended without its memory being freed yet" if pids else ""


def _mps(case: Case) -> str:
    has_server = any("M" in use.kind or _is_mps_server(process) for use, process in case.holders)
    return "the MPS server, which holds memory for its clients" if has_server else ""


def _container(case: Case) -> str:
    outside = "processes outside this container (to see them, start it with --pid=host)"
    return outside if case.is_private else ""


def _instance(case: Case) -> str:
    return "processes of this MIG instance that NVML does not show to this user" if case.device.mig else ""


def _parent(case: Case) -> str:
    mode = value_of(case.device.mig_mode)
    return "what the driver keeps for MIG outside the instances" if mode and mode.is_enabled else ""


def _version_1(case: Case) -> str:
    is_contained = case.memory.driver_reserved_bytes is None and case.remainder_bytes < _RESERVE_AT_MOST_BYTES
    return "the driver's own reserve, which this driver counts as used" if is_contained else ""


def _display(case: Case) -> str:
    return "the display, which the driver serves" if value_of(case.device.display_active) else ""


def _otherwise(case: Case) -> str:
    if case.holders:
        return "the driver, or a process that ended or is hidden (another container, another user's)"
    return "a process that is hidden (another container, another user's) or ended without freeing it"


CAUSES: tuple[Callable[[Case], str], ...] = (
    _unknown,
    _ended,
    _mps,
    _version_1,
    _container,
    _instance,
    _parent,
    _display,
    _otherwise,
)
"""The likeliest first; the first that applies is reported."""

UNUSUAL = (_ended, _otherwise)
"""Causes that somebody should look into if much memory is concerned."""


def unattributed(look: DeviceLook, processes: Sequence[Process], *, is_private: bool) -> tuple[Unattributed, ...]:
    """The memory of each device that no process holds, where it is worth reporting."""
    holders: dict[str, list[tuple[DeviceUse, Process]]] = defaultdict(list)
    for process in processes:
        for use in process.uses:
            holders[use.device].append((use, process))
    cases = (_case(device, look, tuple(holders[device.key]), is_private=is_private) for device in look.devices)
    return tuple(
        _reported(case)
        for case in cases
        if case
        and case.remainder_bytes >= (INSTANCE_WORTH_REPORTING_BYTES if case.device.mig else WORTH_REPORTING_BYTES)
    )


def _reported(case: Case) -> Unattributed:
    cause, words = next((cause, words) for cause in CAUSES if (words := cause(case)))
    return Unattributed(case.device.key, case.remainder_bytes, words, is_usual=cause not in UNUSUAL)


def _case(
    device: Device, look: DeviceLook, holders: tuple[tuple[DeviceUse, Process], ...], *, is_private: bool
) -> Case | None:
    if isinstance(device.memory, Absent) or device.shares_host_memory or device.unlisted:
        return None
    held = sum(use.used_bytes for use, _ in holders if not isinstance(use.used_bytes, Absent))
    remainder = device.memory.used_bytes - held - _instances_bytes(device, look)
    return Case(device, device.memory, remainder, holders, is_private)


def _instances_bytes(device: Device, look: DeviceLook) -> int:
    """The memory that a GPU's MIG instances use; their own cases account for it."""
    instances = (other for other in look.devices if not device.mig and other.mig and other.mig.parent == device.index)
    return sum(other.memory.used_bytes for other in instances if not isinstance(other.memory, Absent))


def _is_mps_server(process: Process) -> bool:
    return not isinstance(process.command, Absent) and "nvidia-cuda-mps" in process.command
