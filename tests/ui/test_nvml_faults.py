"""NVML errors on the screen: the real source reads fake GPUs, one look at a time."""

from __future__ import annotations

import pytest

from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.nvml import NvmlSource
from gputui.ui.drawing.monitor.devices import notes
from tests.conftest import FakeGpus
from tests.sources.nvml_errors import LISTS, LOST, REASONS
from tests.ui import scenes
from tests.ui.monitor import FakeMachine, Monitor, open_monitor

VICTIM = 1
SHOWN = [
    ("nvmlDeviceGetPowerUsage", 3, "power"),
    ("nvmlDeviceGetTemperature", 999, "temperature"),
    ("nvmlDeviceGetUtilizationRates", 4, "GPU utilisation"),
    ("nvmlDeviceGetMemoryInfo*", 10, "used"),
    ("nvmlDeviceGetFanSpeed", 17, "fan"),
    ("nvmlDeviceGetClockInfo", 20, "SM"),
    ("nvmlDeviceGetTotalEccErrors", 14, "ECC uncorrected"),
    ("nvmlDeviceGetFieldValues.82", 27, "memory temperature"),
    ("nvmlDeviceGetUUID", 2, "UUID"),
    ("nvmlDeviceGetSerial", 18, "serial"),
    ("nvmlDeviceGetVbiosVersion", 77, "VBIOS"),
    ("nvmlDeviceGetMigMode", 26, "MIG"),
]
"""An NVML function, its error code, and the label on the device screen of the reading that needs it."""


class LabMachine(FakeMachine):
    """Reads the fake GPUs through the real source; each look advances the clock by `after_s`."""

    def __init__(self) -> None:
        self.time, self.after_s = 1000.0, 1.0
        self.begun = 0
        """The number of the snapshot of the last look that has begun."""
        self.source = NvmlSource(clock=lambda: self.time)
        super().__init__(scenes.snapshot(number=1))

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """Advance the clock by `after_s` and read the fake GPUs."""
        self.begun = self.snapshot.number + 1
        self.time += self.after_s
        devices = self.source.read()
        processes = tuple(scenes.process(use.pid, uses=(use,)) for use in devices.uses)
        scene = scenes.snapshot(processes=processes, number=self.begun, devices=devices)
        self.snapshot = scene
        return super().look(attention, interval_s)

    def close(self) -> None:
        """Shut NVML down."""
        self.source.close()
        super().close()


async def look(monitor: Monitor, after_s: float = 31.0) -> None:
    """Advance the clock by `after_s`, look, and wait until the snapshot of a look that begins now is drawn."""
    monitor.machine.after_s = after_s
    number = monitor.machine.begun
    monitor.app._sampler.refresh()
    await monitor.until(lambda: monitor.app.snapshot.number > number)
    await monitor.settle()


def row(monitor: Monitor, device: int) -> str:
    """The line of a device on the overview."""
    return next(line for line in monitor.lines if line.startswith(f"   {device} "))


@pytest.fixture
def gpus(fake_gpus: FakeGpus) -> FakeGpus:
    fake_gpus.up(2, busy=True, fan=40)
    fake_gpus.ghost(2, device=0, mib=1000, pid=4100)
    fake_gpus.ghost(2, device=1, mib=1000, pid=4200)
    return fake_gpus


@pytest.mark.parametrize(("function", "error", "name"), SHOWN, ids=[name for _, _, name in SHOWN])
async def test_a_failed_reading_shows_its_reason_and_leaves_the_other_device_alone(
    gpus: FakeGpus, function: str, error: int, name: str
) -> None:
    gpus.fault(function, error=error, device=VICTIM)
    async with open_monitor(machine=LabMachine(), size=(120, 60)) as monitor:
        other = row(monitor, 0)
        assert "93%" in other
        assert "40%" in other
        await monitor.press("tab", "down", "enter")
        reason = "not reported by the driver" if name == "UUID" else REASONS[error]
        matching_lines = [line for line in monitor.lines if name in line and reason[:12] in line]
        assert matching_lines, monitor.text
        await monitor.press("escape")
        gpus.set(0, util=50)
        await look(monitor)
        assert row(monitor, 0) != other
        assert "50%" in row(monitor, 0)


async def test_no_error_of_one_device_affects_the_other_or_its_own_recovery(gpus: FakeGpus) -> None:
    async with open_monitor(machine=LabMachine(), size=(80, 24)) as monitor:
        healthy = row(monitor, 0)
        for number, error in enumerate(REASONS):
            gpus.fault("nvmlDeviceGet*", error=error, device=VICTIM)
            gpus.set(1, temperature=40 + number)
            await look(monitor)
            assert row(monitor, 0) == healthy, error
            assert " 0% " not in row(monitor, VICTIM), error
            if error in LOST:
                assert "▲" in row(monitor, VICTIM), error
            gpus.clear("faults")
            gpus.fault("nvmlDeviceGetCount*", error=1)  # makes the source retry readings that were unsupported
            await look(monitor)
            gpus.clear("faults")
            await look(monitor)
            assert f" {40 + number}°C " in row(monitor, VICTIM), error


@pytest.mark.parametrize("function", LISTS)
async def test_a_failed_process_list_leaves_the_other_devices_processes(gpus: FakeGpus, function: str) -> None:
    gpus.fault(function, error=999, device=VICTIM)
    async with open_monitor(machine=LabMachine(), size=(120, 40)) as monitor:
        assert [pid for pid in monitor.pids if pid in (4100, 4101)] == [4100, 4101]
        assert "The proc" in row(monitor, VICTIM)
        await monitor.press("tab", "down", "enter")
        assert "The processes on this GPU cannot be listed: unknown error in the driver." in monitor.text


async def test_the_row_of_a_device_disappears_and_returns_with_it(gpus: FakeGpus) -> None:
    async with open_monitor(machine=LabMachine(), size=(120, 40)) as monitor:
        await monitor.press("tab", "down", "enter")
        gpus.state.devices = 1
        await look(monitor)
        assert "NVML no longer reports this device" in monitor.text
        await monitor.press("escape")
        assert [entry.device.index for entry in monitor.devices.entries] == [0]
        assert {4200, 4201} & set(monitor.pids) == set()
        gpus.state.devices = 2
        await look(monitor)
        assert [entry.device.index for entry in monitor.devices.entries] == [0, 1]
        assert {4200, 4201} <= set(monitor.pids)


async def test_a_driver_upgrade_shows_its_error_until_the_driver_works(gpus: FakeGpus) -> None:
    async with open_monitor(machine=LabMachine(), size=(80, 24)) as monitor:
        healthy = [row(monitor, device) for device in (0, 1)]
        gpus.fault("nvml*", error=18)
        await look(monitor)
        assert "different versions" in monitor.text
        assert "H100" not in monitor.text
        assert "RAM" in monitor.text
        await monitor.press("question_mark", "escape")
        gpus.clear("faults")
        gpus.state.driver = b"590.44.01"
        await look(monitor)
        assert "different versions" not in monitor.text
        assert "driver 590.44.01" in monitor.lines[0]
        assert [row(monitor, device) for device in (0, 1)] == healthy


@pytest.mark.parametrize(
    ("error", "remedy"), [(15, "--gpu-reset"), (16, "--gpu-reset"), (28, "seating"), (8, "cables")]
)
async def test_a_lost_gpu_shows_its_reason_and_the_device_screen_its_remedy(
    gpus: FakeGpus, error: int, remedy: str
) -> None:
    gpus.fault("nvmlDeviceGet*", error=error, device=VICTIM)
    gpus.fault("nvmlDeviceGetHandleByIndex*", error=error, device=VICTIM)
    async with open_monitor(machine=LabMachine(), size=(80, 24)) as monitor:
        assert "▲ " in row(monitor, VICTIM)
        assert "…" not in row(monitor, VICTIM)
        await monitor.press("tab", "down", "enter")
        assert remedy in monitor.text


async def test_memory_errors_come_before_throttle_reasons() -> None:
    troubled = scenes.device(
        0, throttle_reasons=("sw_power_cap",), ecc_uncorrected=3, problems=("Memory rows with errors wait.",)
    )
    async with open_monitor(scenes.snapshot((troubled,)), size=(80, 24)) as monitor:
        assert "3 ECC" in row(monitor, 0)
        await monitor.press("tab", "enter")
        places = [monitor.text.index(words) for words in ("rows with errors", "could not correct", "power")]
        assert places == sorted(places)


def test_the_row_of_a_gpu_with_mig_instances_says_mig(fake_gpus: FakeGpus) -> None:
    fake_gpus.up(2, mig=2)
    source = NvmlSource()
    shown = [[text for text, _ in notes(device) if text == "MIG"] for device in source.read().devices]
    source.close()
    assert shown == [[], ["MIG"], [], []]


def test_the_notes_of_a_row_begin_with_the_most_serious() -> None:
    troubled = scenes.device(0, throttle_reasons=("sw_power_cap",), ecc_uncorrected=3, problems=("Memory waits.",))
    assert [text for text, _ in notes(troubled)] == ["3 ECC errors", "Memory waits.", "sw power cap"]
