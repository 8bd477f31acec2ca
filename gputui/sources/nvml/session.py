"""NVML between initialisation and shutdown: the GPUs, and looks at all of them."""

from __future__ import annotations

from collections.abc import Mapping

from gputui.model.machine.device import DeviceLook, Driver
from gputui.model.machine.reading_declaration import Cadence
from gputui.model.reading import Absent, Reading
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.calls import LIFETIME_S
from gputui.sources.nvml.errors import TOO_OLD, UNSUPPORTED, CallError, Code, NvmlError
from gputui.sources.nvml.gpu import Gpu

_GPUS_AT_MOST = 1024


class Session:
    """Looks at all devices. `nvml` is initialised; `look` raises `NvmlGoneError` when NVML no longer answers."""

    def __init__(self, nvml: Nvml) -> None:
        self.nvml = nvml
        self._gpus: list[Gpu] = []
        self._count_holds_until = float("-inf")
        self._driver = Driver()
        self._driver_holds_until = float("-inf")
        self.counts_links = False
        """Whether the NVLinks of devices that nobody looks at are counted, too."""

    def look(self, now: float, watched: frozenset[str]) -> DeviceLook:
        """All devices at `now`, each GPU followed by its MIG instances; NVLink only of those with a key in `watched`.

        A GPU has NVML's index. Instances have no index in NVML and are numbered after the last GPU, in their order: an
        instance keeps its number until others are created or removed, and its key for good.
        """
        if now >= self._driver_holds_until:
            self._driver = self._read_driver(now)
        self._count(now)
        for gpu in self._gpus:
            gpu.read(now)
        self._number_instances()
        uses = [use for gpu in self._gpus for use in gpu.processes(now).uses]
        for gpu in self._gpus:
            is_watched = gpu.whole.device.key in watched
            gpu.look_at_links(now, is_watched=is_watched, is_counted=self.counts_links)
        self._check_that_some_answer()
        devices = [reader.device for gpu in self._gpus for reader in (gpu.whole, *gpu.instances)]
        return DeviceLook(self._driver, tuple(devices), tuple(uses))

    def handles(self) -> Mapping[str, Handle]:
        """The handles of the GPUs that answer, by the device's key."""
        readers = [gpu.whole for gpu in self._gpus]
        return {reader.device.key: reader.handle for reader in readers if reader.handle is not None}

    def to_sample(self) -> Mapping[str, Handle]:
        """What GPM samples, by the device's key: GPUs as handles, and MIG instances as `Instance`."""
        from gputui.sources.nvml.gpm import Instance

        targets = dict(self.handles())
        for gpu in self._gpus:
            if gpu.whole.handle is not None:
                targets |= {
                    reader.device.key: Instance(gpu.whole.handle, reader.device.mig.gpu_instance)
                    for reader in gpu.instances
                    if reader.handle is not None and reader.device.mig
                }
        return targets

    def close(self) -> None:
        """Shut NVML down."""
        self.nvml.close()

    def _count(self, now: float) -> None:
        if now < self._count_holds_until:
            return
        self._count_holds_until = now + LIFETIME_S[Cadence.SELDOM]
        count = self.nvml.call("nvmlDeviceGetCount")
        if count > _GPUS_AT_MOST:
            raise CallError(Code.IMPOSSIBLE, f"the driver answered {count} GPUs")
        if count != len(self._gpus):
            self._gpus = [Gpu(self.nvml, index) for index in range(count)]

    def _number_instances(self) -> None:
        instances = [reader for gpu in self._gpus for reader in gpu.instances]
        for number, reader in enumerate(instances, start=len(self._gpus)):
            reader.device = reader.device._replace(index=number)

    def _check_that_some_answer(self) -> None:
        """Raise `NvmlGoneError` only if no GPU answers: one GPU may report it while others work."""
        gone = [gpu.gone for gpu in self._gpus if gpu.gone is not None]
        if gone and all(gpu.whole.answers is None for gpu in self._gpus):
            raise gone[0]

    def _read_driver(self, now: float) -> Driver:
        self._driver_holds_until = LIFETIME_S[Cadence.ONCE]
        cuda_version = self._system("nvmlSystemGetCudaDriverVersion_v2", now)
        if cuda_version == TOO_OLD:
            cuda_version = self._system("nvmlSystemGetCudaDriverVersion", now)
        return Driver(self._system("nvmlSystemGetDriverVersion", now), _cuda_version(cuda_version))

    def _system(self, function: str, now: float) -> Raw:
        """The answer of a call about the driver; GPUs may be readable although the call fails.

        NVML takes the CUDA version from libcuda.so.1, for example, which monitoring containers lack.
        """
        try:
            return self.nvml.call(function)
        except NvmlError as error:
            if error.code not in UNSUPPORTED:
                self._driver_holds_until = now + LIFETIME_S[Cadence.SELDOM]
            return error.absent


def _cuda_version(number: Reading[int]) -> Reading[str]:
    """13000 is CUDA 13.0."""
    return number if isinstance(number, Absent) else f"{number // 1000}.{number % 1000 // 10}"
