"""One whole GPU with its MIG instances and all processes on them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gputui.model.device import Device, MigPlace
from gputui.sources.nvml.binding import Handle, Nvml
from gputui.sources.nvml.codes import CallError, Code, GpuLostError
from gputui.sources.nvml.nvlink import NvLinkReader
from gputui.sources.nvml.processes import Listed, Processes
from gputui.sources.nvml.reader import Reader
from gputui.sources.nvml.table import MIG_MODE, SELDOM, Ask

_INSTANCES_AT_MOST = Ask("nvmlDeviceGetMaxMigDeviceCount")
_EMPTY_SLOT = (Code.NOT_FOUND, Code.INVALID_ARGUMENT)


class Gpu:
    """Reads the GPU that NVML numbers `index`."""

    def __init__(self, nvml: Nvml, index: int) -> None:
        self._nvml = nvml
        self._processes = Processes(nvml)
        self._nvlinks = NvLinkReader()
        self._instances_hold_until = float("-inf")
        self._mig_problems: tuple[str, ...] = ()
        self.whole = Reader(nvml, Device(index, "", f"GPU {index}", ""), self._open)
        self.instances: list[Reader] = []

    def read(self, now: float) -> None:
        """Bring `whole` and `instances` up to date. `NvmlGoneError` is raised."""
        self.whole.read(now)
        try:
            self._find_instances(now)
        except GpuLostError as error:
            self.whole.lose(error, now)
        for instance in self.instances:
            instance.read(now)

    def processes(self, now: float) -> Listed:
        """The processes on the GPU and its instances; none while it is lost."""
        if self.whole.answers is None:
            return Listed()
        try:
            listed = self._processes.read(self.whole, self.instances, now)
        except GpuLostError as error:
            self.whole.lose(error, now)
            return Listed()
        problems = (*self.whole.device.problems, *self._mig_problems, *listed.problems)
        self.whole.device = replace(self.whole.device, problems=problems)
        return listed

    def look_at_links(self, now: float, *, is_watched: bool) -> None:
        """Read NVLink where somebody looks at the GPU."""
        if not is_watched or self.whole.answers is None:
            self._nvlinks.rest()
            return
        try:
            links = self._nvlinks.read(self.whole.answers, now)
        except GpuLostError as error:
            self.whole.lose(error, now)
            return
        self.whole.device = replace(self.whole.device, nvlinks=links)

    def _open(self) -> Handle:
        return self._nvml.call("nvmlDeviceGetHandleByIndex", self.whole.device.index)

    def _find_instances(self, now: float) -> None:
        """MIG instances come and go while the GPU runs. While it is lost, those that were there stay."""
        answers = self.whole.answers
        if answers is None or now < self._instances_hold_until:
            return
        self._instances_hold_until = now + SELDOM
        mode, at_most = answers.answer(MIG_MODE, now).value, answers.answer(_INSTANCES_AT_MOST, now).value
        is_cut = mode is not None and mode[0] == 1
        known = {reader.device.uuid: reader for reader in self.instances}
        self._mig_problems, self.instances = (), []
        for slot in range(at_most or 0) if is_cut else ():
            try:
                device = self._instance(slot)
            except CallError as error:
                if error.code not in _EMPTY_SLOT:
                    self._mig_problems += (f"MIG instance {slot} of this GPU cannot be read: {error.reason}.",)
                continue
            self.instances.append(known.get(device.uuid) or Reader(self._nvml, device, partial(self._slot, slot)))

    def _slot(self, slot: int) -> Handle:
        if self.whole.handle is None:
            raise GpuLostError(Code.GPU_IS_LOST, "the GPU that the instance is a part of is lost")
        return self._nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", self.whole.handle, slot)

    def _instance(self, slot: int) -> Device:
        """What identifies the instance in a slot; NVML gives its slots to other instances after a change."""
        handle, whole = self._slot(slot), self.whole.device
        uuid = self._nvml.call("nvmlDeviceGetUUID", handle)
        place = MigPlace(
            whole.index,
            self._nvml.call("nvmlDeviceGetGpuInstanceId", handle),
            self._nvml.call("nvmlDeviceGetComputeInstanceId", handle),
        )
        return Device(whole.index, uuid, f"{whole.name} MIG", whole.bus_id, place)
