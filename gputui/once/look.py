"""One snapshot, taken in the foreground: what the sampler does, once."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.host import Host
from gputui.model.machine.process import ProcessLook
from gputui.model.machine.snapshot import Snapshot

DRIVER_LIMIT_S = 30.0
"""How long the driver may take; without persistence mode it initialises each board first, a second or two each."""


class DeviceSource(Protocol):
    """Reads the devices."""

    def read(self) -> DeviceLook:
        """One look at all devices."""
        ...

    def close(self) -> None:
        """Shut NVML down."""
        ...


class HostSource(Protocol):
    """Reads the host."""

    def read(self) -> Host:
        """One look; rates and percentages are since the last look."""
        ...


class ProcessSource(Protocol):
    """Reads the processes that hold something on a device."""

    def read(self, devices: DeviceLook) -> ProcessLook:
        """One look at the processes that `devices` names."""
        ...


def look(devices: DeviceSource, host: HostSource, processes: ProcessSource) -> Snapshot:
    """Read everything once; the host twice, because its percentages are of the time between two looks."""
    host.read()
    device_look = read_in_time(devices)
    process_look = processes.read(device_look)
    return Snapshot(time=time.time(), number=1, devices=device_look, host=host.read(), processes=process_look)


def read_in_time(devices: DeviceSource, limit_s: float = DRIVER_LIMIT_S) -> DeviceLook:
    """What `devices` reads, or a look with the problem that the driver does not answer.

    A call into the driver can hang forever, and no signal reaches the Python code of the thread that made it. A daemon
    thread makes it, so that Ctrl-C and the limit work.
    """
    answers: SimpleQueue[DeviceLook | BaseException] = SimpleQueue()

    def read() -> None:
        try:
            answers.put(devices.read())
            devices.close()
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            answers.put(error)

    Thread(target=read, name="devices", daemon=True).start()
    try:
        answer = answers.get(timeout=limit_s)
    except Empty:
        problem = (
            f"The NVIDIA driver has not answered for {limit_s:.0f} s. Look for NVRM and Xid in the kernel log (dmesg)."
        )
        return DeviceLook(problem=problem)
    if isinstance(answer, BaseException):
        raise answer
    return answer
