"""Each reading of the NVML source, through the real nvidia-ml-py and the fake library."""

from __future__ import annotations

import pytest

from gputui.model.machine.device import (
    THROTTLE_SENTENCES,
    Bar1,
    Device,
    DeviceMemory,
    Driver,
    MigMode,
    PcieLink,
    RemappedRows,
    Throttled,
)
from gputui.model.machine.device_readings import READINGS
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, AbsentKind
from gputui.sources.nvml.calls import THROTTLE_BITS
from gputui.units import GIB, MIB
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks

FUNCTION_NOT_FOUND, NOT_SUPPORTED, NO_PERMISSION, TIMEOUT, VERSION_MISMATCH = 13, 3, 4, 10, 25

CASES = [
    ("name", {"name": "NVIDIA A100"}, "NVIDIA A100"),
    ("bus_id", {"bus_id": "00000000:65:00.0"}, "00000000:65:00.0"),
    ("gpu_utilization_percent", {"util": 93}, 93),
    ("memory_utilization_percent", {"mem_util": 47}, 47),
    ("encoder_percent", {"enc": 12}, 12),
    ("decoder_percent", {"dec": 13}, 13),
    ("temperature_c", {"temperature": 61}, 61),
    ("memory_temperature_c", {"mem_temperature": 84}, 84),
    ("memory_temperature_c", {"mem_temperature": 0}, Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)),
    ("slowdown_temperature_c", {}, 89),
    ("shutdown_temperature_c", {}, 92),
    ("fan_percent", {"fan": 40}, 40),
    ("fan_percent", {"fan": 0}, Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)),
    ("power_w", {"power": 512_250}, 512.25),
    ("power_limit_w", {"power_limit": 400_000}, 400.0),
    ("energy_j", {"energy": 1500}, 1.5),
    ("sm_clock_mhz", {"sm_clock": 1755}, 1755),
    ("memory_clock_mhz", {"mem_clock": 1593}, 1593),
    ("max_sm_clock_mhz", {"max_sm_clock": 1980}, 1980),
    ("max_memory_clock_mhz", {"max_mem_clock": 2619}, 2619),
    ("pstate", {"pstate": 8}, "P8"),
    ("pstate", {"pstate": 32}, Absent("not known: NVML answered 32")),
    ("throttle_reasons", {"throttle": 0}, ()),
    ("throttle_reasons", {"throttle": 0x1}, ("gpu_idle",)),
    ("throttle_reasons", {"throttle": 0x28}, ("hw_slowdown", "sw_thermal_slowdown")),
    ("pcie", {"pcie_gen": 4, "pcie_width": 8}, PcieLink(4, 8, 4, 8)),
    ("bar1", {}, Bar1(128 * GIB, MIB)),
    ("ecc_uncorrected", {"ecc_uncorrected": 3}, 3),
    ("ecc_corrected", {"ecc_corrected": 17}, 17),
    (
        "remapped_rows",
        {"remapped_uncorrectable": 2, "remap_pending": 1},
        RemappedRows(0, 2, pending=True, failed=False),
    ),
    ("retired_pages", {"retired_single": 2, "retired_double": 1}, 3),
    ("persistence_mode", {"persistence": 1}, True),
    ("persistence_mode", {"persistence": 2}, Absent("not known: NVML answered 2")),
    ("persistence_mode", {"persistence": 0}, False),
    ("compute_mode", {"compute_mode": 3}, "exclusive process"),
    ("display_active", {"display": 1}, True),
    ("mig_mode", {}, MigMode(is_enabled=False, is_enabled_after_reset=False)),
    ("vbios", {}, "96.00.89.00.01"),
    ("serial", {}, "1654223000001"),
    ("architecture", {}, "Hopper"),
    ("compute_capability", {}, "9.0"),
    ("pcie_tx_bytes_per_s", {}, NOT_LOOKED_AT),
    ("nvlinks", {}, NOT_LOOKED_AT),
]


@pytest.mark.parametrize(("field", "state", "expected"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_device_is_read_field_by_field(
    fake_gpus: FakeGpus, looks: Looks, field: str, state: dict, expected: object
) -> None:
    fake_gpus.set(1, **state)
    assert getattr(looks.look().devices[1], field) == expected


def test_every_field_of_a_device_is_a_declared_reading_or_follows_from_others() -> None:
    no_readings = {"index", "mig", "lost", "shares_host_memory", "problems", "unlisted"}
    assert {reading.field for reading in READINGS} == set(Device._fields) - no_readings


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("persistence_mode", True, "enabled"),
        ("display_active", False, "not active"),
        ("mig_mode", MigMode(is_enabled=False, is_enabled_after_reset=False), "disabled"),
        (
            "mig_mode",
            MigMode(is_enabled=True, is_enabled_after_reset=False),
            "enabled (disabled after the next reset)",
        ),
    ],
)
def test_a_mode_in_words(field: str, value: object, text: str) -> None:
    (reading,) = (reading for reading in READINGS if reading.field == field)
    assert reading.text(Device(0, "", "", "")._replace(**{field: value})) == text


def test_the_driver_version_is_read(looks: Looks) -> None:
    assert looks.look().driver == Driver("580.159.04", "13.0")


def test_memory_is_read_with_version_2_of_the_call(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(1, device=0, mib=20480)
    memory = looks.look().devices[0].memory
    total = int(79.65 * 1024) * MIB
    assert memory == DeviceMemory(total, 20480 * MIB, total - 20992 * MIB, 512 * MIB)


@pytest.mark.parametrize("error", [FUNCTION_NOT_FOUND, VERSION_MISMATCH, NOT_SUPPORTED])
def test_memory_of_an_older_driver_is_read_with_version_1(fake_gpus: FakeGpus, looks: Looks, error: int) -> None:
    fake_gpus.fault("nvmlDeviceGetMemoryInfo_v2", error=error)
    fake_gpus.ghost(1, device=0, mib=20480)
    device = looks.look().devices[0]
    total = int(79.65 * 1024) * MIB
    assert device.memory == DeviceMemory(total, 20992 * MIB, total - 20992 * MIB, None)
    assert not device.shares_host_memory


def test_memory_of_a_gpu_that_shares_host_memory_is_absent(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetMemoryInfo*", error=NOT_SUPPORTED, device=0)
    shared, other = looks.look().devices
    assert shared.shares_host_memory
    assert shared.memory == Absent("this GPU has no memory of its own: it shares the host's", AbsentKind.NOT_SUPPORTED)
    assert shared.temperature_c == 34
    assert not other.shares_host_memory
    assert isinstance(other.memory, DeviceMemory)


SECOND_US = 1_000_000


def test_throttling_is_told_by_what_nvml_counted_between_two_readings(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.set(1, throttle=0x20, slowed_until_us=SECOND_US, slowed_power_ns=7 * 10**9)
    first = looks.look().devices[1]
    assert first.throttled == NOT_READ
    assert first.throttle_reasons == ("sw_thermal_slowdown",)  # of this moment: nothing was counted yet
    fake_gpus.set(1, throttle=0x8, slowed_until_us=6 * SECOND_US, slowed_power_ns=7 * 10**9 + 12 * 10**8)
    second = looks.look(after_s=5.0).devices[1]
    assert second.throttled == Throttled(power_percent=24.0, thermal_percent=0.0)
    assert second.throttle_reasons == ("sw_power_cap", "hw_slowdown")
    assert looks.look().devices[1].throttled == second.throttled


def test_without_its_counters_the_throttle_reasons_are_those_of_the_moment(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetViolationStatus", error=NOT_SUPPORTED)
    fake_gpus.set(1, throttle=0x4)
    for _ in range(2):
        device = looks.look(after_s=5.0).devices[1]
    assert device.throttle_reasons == ("sw_power_cap",)
    assert device.throttled == Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)


def test_every_throttle_reason_has_a_sentence() -> None:
    assert set(THROTTLE_BITS.values()) == set(THROTTLE_SENTENCES)


def test_a_reading_that_failed_otherwise_is_requested_again(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetPowerUsage", error=TIMEOUT, device=0)
    assert looks.look().devices[0].power_w == Absent("the driver did not answer in time")
    fake_gpus.clear("faults")
    assert looks.look().devices[0].power_w == 72.0


def test_constant_readings_are_requested_again_only_while_they_fail(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetSerial", error=NO_PERMISSION, device=0)
    assert looks.look().devices[0].serial == Absent("insufficient permissions")
    fake_gpus.clear("faults")
    for _ in range(10):
        device = looks.look().devices[0]
    assert device.serial == "1654223000000"
    assert fake_gpus.calls()["nvmlDeviceGetSerial"] == 3  # twice for device 0, once for device 1


def test_a_second_takes_at_most_ten_calls_per_device(fake_gpus: FakeGpus, looks: Looks) -> None:
    gpus, seconds = 8, 60
    fake_gpus.up(gpus, busy=True, fan=40)
    fake_gpus.ghost(24)
    looks.look()
    fake_gpus.clear("calls")
    for _ in range(seconds):
        looks.look()
    assert sum(fake_gpus.calls().values()) <= 10 * gpus * seconds


def test_an_added_gpu_gets_a_row(fake_gpus: FakeGpus, looks: Looks) -> None:
    assert len(looks.look().devices) == 2
    fake_gpus.up(3)
    assert len(looks.look(after_s=5).devices) == 3
