"""One whole GPU with its MIG instances and all processes on them."""

from __future__ import annotations

from functools import partial

from gputui.model.machine.device import Device, MigPlace
from gputui.model.machine.reading_declaration import Cadence
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.calls import LIFETIME_S, MIG_MODE, Call
from gputui.sources.nvml.device_reader import DeviceReader
from gputui.sources.nvml.errors import UNSUPPORTED, CallError, Code, GpuLostError, NvmlError, NvmlGoneError
from gputui.sources.nvml.nvlink import NvLinkReader
from gputui.sources.nvml.processes import Listed, Processes

_INSTANCES_AT_MOST = Call("nvmlDeviceGetMaxMigDeviceCount")
_SLOTS_AT_MOST = 64
"""A real GPU has 7 or 8 slots."""
_EMPTY_SLOT = (Code.NOT_FOUND, Code.INVALID_ARGUMENT)


class Gpu:
    """Reads the GPU that NVML numbers `index`."""

    def __init__(self, nvml: Nvml, index: int) -> None:
        self._nvml = nvml
        self._processes = Processes(nvml)
        self._nvlinks = NvLinkReader()
        self._instances_hold_until = float("-inf")
        self._mig_problems: tuple[str, ...] = ()
        self._slots: dict[int, DeviceReader] = {}
        self.gone: NvmlGoneError | None = None
        """NVML's error when it stopped answering about this GPU; None once it answers again."""
        self.whole = DeviceReader(nvml, Device(index, "", f"GPU {index}", ""), self._open)
        self.instances: list[DeviceReader] = []

    def read(self, now: float) -> None:
        """Bring `whole` and `instances` up to date."""
        try:
            self.whole.read(now)
            if self.whole.answers is not None:
                self.gone = None
            self._find_instances(now)
        except (GpuLostError, NvmlGoneError) as error:
            self._lose(error, now)
        for instance in self.instances:
            _read_instance(instance, now)

    def processes(self, now: float) -> Listed:
        """The processes on the GPU and its instances; none while it is lost."""
        if self.whole.answers is None:
            return Listed()
        try:
            listed = self._processes.read(self.whole, self.instances, now)
        except (GpuLostError, NvmlGoneError) as error:
            self._lose(error, now)
            return Listed()
        problems = (*self.whole.device.problems, *self._mig_problems, *listed.problems)
        self.whole.device = self.whole.device._replace(problems=problems)
        for reader in (self.whole, *self.instances):
            reader.device = reader.device._replace(unlisted=listed.unlisted.get(reader.device.key))
        return listed

    def look_at_links(self, now: float, *, is_watched: bool, is_counted: bool) -> None:
        """Read NVLink while somebody looks at the GPU; otherwise, with `is_counted`, only count the active links."""
        if not is_watched or self.whole.answers is None:
            self._nvlinks.rest()
        if not (is_watched or is_counted) or self.whole.answers is None:
            return
        try:
            read = self._nvlinks.read if is_watched else self._nvlinks.count
            links = read(self.whole.answers, now)
        except (GpuLostError, NvmlGoneError) as error:
            self._lose(error, now)
            return
        self.whole.device = self.whole.device._replace(nvlinks=links)

    def _lose(self, error: NvmlError, now: float) -> None:
        if isinstance(error, NvmlGoneError):
            self.gone = error
        self.whole.lose(error, now)

    def _open(self) -> Handle:
        return self._nvml.call("nvmlDeviceGetHandleByIndex", self.whole.device.index)

    def _find_instances(self, now: float) -> None:
        """Update the MIG instances, which come and go while the GPU runs; where NVML cannot list them, they stay."""
        answers = self.whole.answers
        if answers is None or now < self._instances_hold_until:
            return
        self._instances_hold_until = now + LIFETIME_S[Cadence.SELDOM]
        mode, at_most = answers.answer(MIG_MODE, now), answers.answer(_INSTANCES_AT_MOST, now)
        if any(answer.error is not None and answer.error.code not in UNSUPPORTED for answer in (mode, at_most)):
            return
        is_partitioned = mode.value is not None and mode.value[0] == 1
        known = {reader.device.uuid: reader for reader in self.instances}
        slots, problems = {}, []
        count = at_most.value or 0
        if count > _SLOTS_AT_MOST:
            problems.append(f"The MIG instances of this GPU cannot be listed: the driver answered {count} of them.")
            count = 0
        for slot in range(count) if is_partitioned else ():
            device = self._instance_or_error(slot)
            if isinstance(device, Device):
                slots[slot] = known.get(device.uuid) or DeviceReader(self._nvml, device, partial(self._slot, slot))
            elif device.code not in _EMPTY_SLOT:
                problems.append(f"MIG instance {slot} of this GPU cannot be read: {device.reason}.")
                if slot in self._slots:
                    slots[slot] = self._slots[slot]
        self._slots, self.instances, self._mig_problems = slots, list(dict.fromkeys(slots.values())), tuple(problems)

    def _slot(self, slot: int) -> Handle:
        if self.whole.handle is None:
            raise GpuLostError(Code.GPU_IS_LOST, "the GPU that the instance is a part of is lost")
        return self._nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", self.whole.handle, slot)

    def _instance_or_error(self, slot: int) -> Device | NvmlError:
        try:
            return self._instance(slot)
        except (CallError, NvmlGoneError) as error:
            return error

    def _instance(self, slot: int) -> Device:
        """What identifies the instance in a slot; NVML reuses slots for other instances after a change."""
        handle, whole = self._slot(slot), self.whole.device
        uuid = self._nvml.call("nvmlDeviceGetUUID", handle)
        place = MigPlace(
            whole.index,
            self._nvml.call("nvmlDeviceGetGpuInstanceId", handle),
            self._nvml.call("nvmlDeviceGetComputeInstanceId", handle),
        )
        return Device(whole.index, uuid, f"{whole.name} MIG", whole.bus_id, place)


def _read_instance(instance: DeviceReader, now: float) -> None:
    """Read an instance; if NVML seems gone, only the instance is lost: its error alone proves nothing."""
    try:
        instance.read(now)
    except NvmlGoneError as error:
        instance.lose(error, now)
