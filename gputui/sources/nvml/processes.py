"""The processes on a device: how much of the device's memory they hold, and how much of its time they take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gputui.model.machine.device import DeviceMemory, DeviceUse
from gputui.model.machine.reading_declaration import USED_OF_TOTAL, Cadence, answered
from gputui.model.reading import Absent, AbsentKind, Reading, value_of
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.calls import LIFETIME_S, Call
from gputui.sources.nvml.device_reader import Answer, DeviceReader
from gputui.sources.nvml.errors import UNSUPPORTED, CallError, Code
from gputui.units import MIB


def _list(function: str, cadence: Cadence) -> Call:
    """A call with its older versions: drivers before 510 lack version 3, those before 450 version 2."""
    return Call(f"{function}_v3", otherwise=Call(f"{function}_v2", otherwise=Call(f"{function}_v1"))).at(cadence)


_LISTS = (
    ("C", _list("nvmlDeviceGetComputeRunningProcesses", Cadence.OFTEN)),
    ("G", _list("nvmlDeviceGetGraphicsRunningProcesses", Cadence.SELDOM)),
    ("M", _list("nvmlDeviceGetMPSComputeRunningProcesses", Cadence.SELDOM)),
)
MOVED_BYTES = 64 * MIB
"""If a device's used memory has changed by this much, its processes are listed again, however new the last list is."""
_MEMORY_UNKNOWN = Absent("NVML does not say how much memory this process holds")
_NOT_AVAILABLE = 2**64 - 1
_NO_PID = Absent("NVML does not say which process it is", AbsentKind.NOT_SAMPLED)
_OF_NOW_US, _CLOCKS_DIFFER_US = 5_000_000, 1_000_000
"""How old a sample may be, and how far in the future (microseconds)."""
_NOT_SAMPLED = Absent("no sample in the last interval", AbsentKind.NOT_SAMPLED)


class _Entry(NamedTuple):
    """An entry of one of NVML's lists; `device` is the key of the GPU or MIG instance."""

    device: str
    pid: int
    kind: str
    used_bytes: int | None


class Listed(NamedTuple):
    """The uses of a GPU and its instances, and sentences about lists that could not be read.

    `unlisted` is why some processes of a device may be missing, by the device's key.
    """

    uses: tuple[DeviceUse, ...] = ()
    problems: tuple[str, ...] = ()
    unlisted: Mapping[str, Absent] = {}


class Processes:
    """The processes of one whole GPU and of its MIG instances, from look to look."""

    def __init__(self, nvml: Nvml) -> None:
        self._sm_use = _SmUse(nvml)
        self._listed_at_bytes: Mapping[str, int] = {}
        """The used memory of each device, by key, when its processes were last listed because of a change."""

    def read(self, whole: DeviceReader, instances: Sequence[DeviceReader], now: float) -> Listed:
        """The processes there are now. Raises `GpuLostError` and `NvmlGoneError`."""
        keys = {_place(reader): reader.device.key for reader in instances}
        memories = {reader.device.key: value_of(reader.device.memory) for reader in (whole, *instances)}
        entries: list[_Entry] = []
        problems: list[str] = []
        unlisted: dict[str, Absent] = {}
        has_moved = self._has_moved(memories)
        for kind, call in _LISTS:
            for reader, answer in _answers_to(call, whole, instances, now, of_now=has_moved and kind == "C"):
                if answer.error is None:
                    entries += [_entry(kind, it, keys, reader.device.key) for it in answer.value]
                elif kind == "C" or answer.error.code not in UNSUPPORTED:
                    problems.append(f"The processes on this GPU cannot be listed: {answer.error.reason}.")
                    without = (whole, *instances) if reader is whole else (whole, reader)
                    unlisted |= dict.fromkeys((one.device.key for one in without), answer.error.absent)
        sm_percents = self._sm_use.read(whole.handle, now) if entries else _NOT_SAMPLED
        return Listed(_merged(entries, sm_percents, memories), tuple(dict.fromkeys(problems)), unlisted)

    def _has_moved(self, memories: Mapping[str, DeviceMemory | None]) -> bool:
        """Whether the used memory of a device has changed, so that the last list does not fit this moment."""
        used = {key: memory.used_bytes for key, memory in memories.items() if memory is not None}
        has_moved = any(
            abs(used[key] - before) >= MOVED_BYTES for key, before in self._listed_at_bytes.items() if key in used
        )
        if has_moved or used.keys() != self._listed_at_bytes.keys():
            self._listed_at_bytes = used
        return has_moved


class _SmUse:
    """How much of the GPU's time its processes take, in percent of its multiprocessors.

    NVML lists only processes that were active since a given time. A process that is missing was idle, provided that
    this GPU samples its processes at all, which its first sample proves. Only samples of now count: NVML keeps old
    ones, and after the clock was set back, it has samples of the future.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._seen_until_us = 0
        self._holds_until = float("-inf")
        self._percents: Reading[Mapping[int, Reading[int]]] = _NOT_SAMPLED

    def read(self, handle: Handle, now: float) -> Reading[Mapping[int, Reading[int]]]:
        """Percent by PID since the last reading; a process that is not in the mapping is idle."""
        if now >= self._holds_until:
            self._holds_until = now + LIFETIME_S[Cadence.OFTEN]
            self._percents = self._ask(handle)
        return self._percents

    def _ask(self, handle: Handle) -> Reading[Mapping[int, Reading[int]]]:
        try:
            samples = self._nvml.call_about(handle, "nvmlDeviceGetProcessUtilization", self._seen_until_us)
        except CallError as error:
            if error.code in UNSUPPORTED:
                self._holds_until = LIFETIME_S[Cadence.ONCE]
            if error.code != Code.NOT_FOUND:
                return error.absent
            samples = ()
        if not samples and not self._seen_until_us:
            return _NOT_SAMPLED
        sound = [sample for sample in samples if sample.smUtil <= 100]  # drivers leave garbage in unused samples
        now_us = int(time.time() * 1e6)
        past = [sample for sample in sound if sample.timeStamp <= now_us + _CLOCKS_DIFFER_US]
        self._seen_until_us = max([min(self._seen_until_us, now_us), *(sample.timeStamp for sample in past)])
        percents: dict[int, Reading[int]] = {sample.pid: _NOT_SAMPLED for sample in sound}
        return percents | {sample.pid: sample.smUtil for sample in past if sample.timeStamp >= now_us - _OF_NOW_US}


def _answers_to(
    call: Call, whole: DeviceReader, instances: Sequence[DeviceReader], now: float, *, of_now: bool
) -> list[tuple[DeviceReader, Answer]]:
    """The GPU with its answer; where that needs more permissions, its MIG instances with theirs."""
    answers = _answers([whole], call, now, of_now=of_now)
    refused = any(answer.error is not None and answer.error.code == Code.NO_PERMISSION for _, answer in answers)
    return (_answers(instances, call, now, of_now=of_now) or answers) if refused else answers


def _answers(
    readers: Sequence[DeviceReader], call: Call, now: float, *, of_now: bool
) -> list[tuple[DeviceReader, Answer]]:
    return [
        (reader, reader.answers.answer(call, now, of_now=of_now)) for reader in readers if reader.answers is not None
    ]


def _place(reader: DeviceReader) -> tuple[int, int] | None:
    mig = reader.device.mig
    return (mig.gpu_instance, mig.compute_instance) if mig else None


def _entry(kind: str, info: Raw, keys: Mapping[tuple[int, int] | None, str], key: str) -> _Entry:
    """`info` is an nvmlProcessInfo_t."""
    place = (info.gpuInstanceId, info.computeInstanceId)
    used_bytes = None if info.usedGpuMemory == _NOT_AVAILABLE else info.usedGpuMemory
    return _Entry(keys.get(place, key), info.pid, kind, used_bytes)


def _held(entry: _Entry, memory: DeviceMemory | None) -> Reading[int]:
    """What the process holds; absent where that is more than the device has."""
    if entry.used_bytes is None:
        return _MEMORY_UNKNOWN
    if memory is not None and entry.used_bytes > memory.total_bytes:
        return answered(USED_OF_TOTAL.text(memory._replace(used_bytes=entry.used_bytes)))
    return entry.used_bytes


def _merged(
    entries: list[_Entry], sm_percents: Reading[Mapping[int, Reading[int]]], memories: Mapping[str, DeviceMemory | None]
) -> tuple[DeviceUse, ...]:
    """One `DeviceUse` for each process and device; processes under PID 0 are told apart by what they hold."""
    merged: dict[tuple[object, ...], DeviceUse] = {}
    nameless: Counter[_Entry] = Counter()
    for entry in entries:
        place: tuple[object, ...] = (entry.device, entry.pid)
        if not entry.pid:
            nameless[entry] += 1
            place = (entry.device, entry.used_bytes, nameless[entry])
        used_bytes = _held(entry, memories.get(entry.device))
        sm_percent = sm_percents if isinstance(sm_percents, Absent) else sm_percents.get(entry.pid, 0)
        if not entry.pid:
            sm_percent = _NO_PID
        known = merged.get(place)
        if known is not None:  # every list has the process's total, so entries are not added up
            used_bytes = max((known.used_bytes, used_bytes), key=lambda reading: value_of(reading) or 0)
            merged[place] = known._replace(kind=f"{known.kind}+{entry.kind}", used_bytes=used_bytes)
        else:
            merged[place] = DeviceUse(entry.device, entry.pid, entry.kind, used_bytes, sm_percent)
    return tuple(merged.values())
