"""The processes on a device: how much of its memory they hold, and how much of its time they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gputui.model.device import DeviceUse
from gputui.model.reading import Absent, AbsentKind, Reading, value_of
from gputui.model.reading_declaration import Cadence
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.calls import LIFETIME_S, Call
from gputui.sources.nvml.device_reader import Answer, DeviceReader
from gputui.sources.nvml.errors import UNSUPPORTED, CallError, Code


def _list(function: str, cadence: Cadence) -> Call:
    """The versions of a list: nvidia-ml-py's function without one fails with an error of its own on older drivers."""
    return Call(f"{function}_v3", otherwise=Call(f"{function}_v2")).at(cadence)


_LISTS = (
    ("C", _list("nvmlDeviceGetComputeRunningProcesses", Cadence.OFTEN)),
    ("G", _list("nvmlDeviceGetGraphicsRunningProcesses", Cadence.SELDOM)),
    ("M", _list("nvmlDeviceGetMPSComputeRunningProcesses", Cadence.SELDOM)),
)
_MEMORY_UNKNOWN = Absent("NVML does not say how much memory this process holds")
_NOT_SAMPLED = Absent("no sample in the last interval", AbsentKind.NOT_SAMPLED)
_NO_SAMPLES = (Code.SUCCESS, Code.NOT_FOUND)
"""The errors of nvidia-ml-py where there are no samples; it raises NVML's success without samples as one."""


class _Entry(NamedTuple):
    """An entry of one of NVML's lists; `device` is the key of the GPU or MIG instance."""

    device: str
    pid: int
    kind: str
    used_bytes: int | None


class Listed(NamedTuple):
    """The uses of a GPU and its instances, and sentences about lists that could not be read."""

    uses: tuple[DeviceUse, ...] = ()
    problems: tuple[str, ...] = ()


class Processes:
    """The processes of one whole GPU and of its MIG instances, from look to look."""

    def __init__(self, nvml: Nvml) -> None:
        self._sm_use = _SmUse(nvml)

    def read(self, whole: DeviceReader, instances: Sequence[DeviceReader], now: float) -> Listed:
        """The processes there are now. Raises `GpuLostError` and `NvmlGoneError`."""
        keys = {_place(reader): reader.device.key for reader in instances}
        entries: list[_Entry] = []
        problems = []
        for kind, call in _LISTS:
            for reader, answer in _answers_to(call, whole, instances, now):
                if answer.error is None:
                    entries += [_entry(kind, it, keys, reader.device.key) for it in answer.value]
                elif kind == "C" or answer.error.code not in UNSUPPORTED:
                    problems.append(f"The processes on this GPU cannot be listed: {answer.error.reason}.")
        sm_percents = self._sm_use.read(whole.handle, now) if entries else _NOT_SAMPLED
        return Listed(_merged(entries, sm_percents), tuple(dict.fromkeys(problems)))


class _SmUse:
    """How much of the GPU's time its processes take, in percent of its multiprocessors.

    NVML lists only processes that were active since the time it is given. One that is missing was idle, provided that
    this GPU samples its processes at all, which its first sample proves.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._seen_until_us = 0
        self._holds_until = float("-inf")
        self._percents: Reading[Mapping[int, int]] = _NOT_SAMPLED

    def read(self, handle: Handle, now: float) -> Reading[Mapping[int, int]]:
        """Percent by PID since the last reading; what is not in it is idle."""
        if now >= self._holds_until:
            self._holds_until = now + LIFETIME_S[Cadence.OFTEN]
            self._percents = self._ask(handle)
        return self._percents

    def _ask(self, handle: Handle) -> Reading[Mapping[int, int]]:
        try:
            samples = self._nvml.call_about(handle, "nvmlDeviceGetProcessUtilization", self._seen_until_us)
        except CallError as error:
            if error.code in UNSUPPORTED:
                self._holds_until = LIFETIME_S[Cadence.ONCE]
            if error.code not in _NO_SAMPLES:
                return error.absent
            return {} if self._seen_until_us else _NOT_SAMPLED
        sound = [sample for sample in samples if sample.smUtil <= 100]  # drivers leave garbage in unused samples
        self._seen_until_us = max([self._seen_until_us, *(sample.timeStamp for sample in sound)])
        return {sample.pid: sample.smUtil for sample in sound}


def _answers_to(
    call: Call, whole: DeviceReader, instances: Sequence[DeviceReader], now: float
) -> list[tuple[DeviceReader, Answer]]:
    """The GPU with its answer, or its MIG instances with theirs where its own list needs more permissions."""
    answers = _answers([whole], call, now)
    refused = any(answer.error is not None and answer.error.code == Code.NO_PERMISSION for _, answer in answers)
    return (_answers(instances, call, now) or answers) if refused else answers


def _answers(readers: Sequence[DeviceReader], call: Call, now: float) -> list[tuple[DeviceReader, Answer]]:
    return [(reader, reader.answers.answer(call, now)) for reader in readers if reader.answers is not None]


def _place(reader: DeviceReader) -> tuple[int, int] | None:
    mig = reader.device.mig
    return (mig.gpu_instance, mig.compute_instance) if mig else None


def _entry(kind: str, info: Raw, keys: Mapping[tuple[int, int] | None, str], key: str) -> _Entry:
    """`info` is an nvmlProcessInfo_t, whose `usedGpuMemory` nvidia-ml-py gives as None where NVML says N/A."""
    place = (info.gpuInstanceId, info.computeInstanceId)
    return _Entry(keys.get(place, key), info.pid, kind, info.usedGpuMemory)


def _merged(entries: list[_Entry], sm_percents: Reading[Mapping[int, int]]) -> tuple[DeviceUse, ...]:
    """One `DeviceUse` for each process and device."""
    merged: dict[tuple[str, int], DeviceUse] = {}
    for entry in entries:
        place = (entry.device, entry.pid)
        used_bytes = _MEMORY_UNKNOWN if entry.used_bytes is None else entry.used_bytes
        sm_percent = sm_percents if isinstance(sm_percents, Absent) else sm_percents.get(entry.pid, 0)
        known = merged.get(place)
        if known is not None:  # every list has the process's total, so entries are not added up
            used_bytes = max((known.used_bytes, used_bytes), key=lambda reading: value_of(reading) or 0)
            merged[place] = known._replace(kind=f"{known.kind}+{entry.kind}", used_bytes=used_bytes)
        else:
            merged[place] = DeviceUse(entry.device, entry.pid, entry.kind, used_bytes, sm_percent)
    return tuple(merged.values())
