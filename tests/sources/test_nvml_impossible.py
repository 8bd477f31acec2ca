"""A driver that answers with success and a number that cannot be: the reading is absent, and says the number."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent
from tests.conftest import FakeGpus
from tests.hanging import HANGS_S
from tests.sources.conftest import Looks
from tests.sources.waiting import look_until

UNKNOWN_32, UNKNOWN_64 = 2**32 - 1, 2**64 - 1
"""What NVML's interface calls "not available"."""
GIB = 1 << 30

READ_AT_EACH_LOOK = [
    ("nvmlDeviceGetUtilizationRates.gpu", UNKNOWN_32, "gpu_utilization_percent", "4294967295%"),
    ("nvmlDeviceGetUtilizationRates.gpu", 101, "gpu_utilization_percent", "101%"),
    ("nvmlDeviceGetUtilizationRates.memory", UNKNOWN_32, "memory_utilization_percent", "4294967295%"),
    ("nvmlDeviceGetEncoderUtilization", 255, "encoder_percent", "255%"),
    ("nvmlDeviceGetDecoderUtilization", UNKNOWN_32, "decoder_percent", "4294967295%"),
    ("nvmlDeviceGetFanSpeed", UNKNOWN_32, "fan_percent", "4294967295%"),
    ("nvmlDeviceGetTemperature", UNKNOWN_32, "temperature_c", "4294967295 °C"),
    ("nvmlDeviceGetTemperature", 255, "temperature_c", "255 °C"),
    ("nvmlDeviceGetFieldValues.82", UNKNOWN_32, "memory_temperature_c", "4294967295 °C"),
    ("nvmlDeviceGetTemperatureThreshold", UNKNOWN_32, "slowdown_temperature_c", "4294967295 °C"),
    ("nvmlDeviceGetTemperatureThreshold", 0, "shutdown_temperature_c", "0 °C"),
    ("nvmlDeviceGetPowerUsage", UNKNOWN_32, "power_w", "4294967 W"),
    ("nvmlDeviceGetEnforcedPowerLimit", 0, "power_limit_w", "0 W"),
    ("nvmlDeviceGetFieldValues.83", UNKNOWN_64, "energy_j", "5,124,095,576.0 kWh"),
    ("nvmlDeviceGetClockInfo", UNKNOWN_32, "sm_clock_mhz", "4294967295 MHz"),
    ("nvmlDeviceGetClockInfo", UNKNOWN_32, "memory_clock_mhz", "4294967295 MHz"),
    ("nvmlDeviceGetMaxClockInfo", 0, "max_sm_clock_mhz", "0 MHz"),
    ("nvmlDeviceGetMaxClockInfo", UNKNOWN_32, "max_memory_clock_mhz", "4294967295 MHz"),
    ("nvmlDeviceGetMemoryInfo_v2.total", 0, "memory", "200 MiB of 0 B"),
    ("nvmlDeviceGetMemoryInfo_v2.used", 240 * GIB, "memory", "240 GiB of 79.6 GiB"),
    ("nvmlDeviceGetMemoryInfo_v2.total", UNKNOWN_64, "memory", "200 MiB of 16777216 TiB"),
    ("nvmlDeviceGetMemoryInfo_v2.free", UNKNOWN_64, "memory", "200 MiB of 79.6 GiB, 16777216 TiB of it free"),
    ("nvmlDeviceGetMemoryInfo_v2.reserved", UNKNOWN_64, "memory", "200 MiB of 79.6 GiB, 16777216 TiB of it reserved"),
    ("nvmlDeviceGetBAR1MemoryInfo.used", UNKNOWN_64, "bar1", "16777216 TiB of 128 GiB"),
    ("nvmlDeviceGetCurrPcieLinkGeneration", UNKNOWN_32, "pcie", "gen 4294967295 x16, at most gen 5 x16"),
    ("nvmlDeviceGetMaxPcieLinkWidth", 0, "pcie", "gen 5 x16, at most gen 5 x0"),
    ("nvmlDeviceGetTotalEccErrors", UNKNOWN_64, "ecc_uncorrected", "18446744073709551615"),
    ("nvmlDeviceGetTotalEccErrors", UNKNOWN_64, "ecc_corrected", "18446744073709551615"),
    ("nvmlDeviceGetRemappedRows.correctable", UNKNOWN_32, "remapped_rows", "4294967295 correctable, 0 not"),
    ("nvmlDeviceGetRetiredPages", UNKNOWN_32, "retired_pages", "8589934590"),
]


@pytest.mark.parametrize(
    ("function", "number", "field", "words"),
    READ_AT_EACH_LOOK,
    ids=[f"{case[2]}-{case[1]}" for case in READ_AT_EACH_LOOK],
)
def test_a_number_that_cannot_be_is_absent_and_says_the_number(
    busy_gpus: FakeGpus, looks: Looks, function: str, number: int, field: str, words: str
) -> None:
    busy_gpus.answer(function, number, device=1)
    with_sense, without = looks.look().devices
    assert getattr(without, field) == Absent(f"the driver answered {words}")
    assert not isinstance(getattr(with_sense, field), Absent)


@pytest.mark.parametrize(
    ("function", "number", "field", "words"),
    [
        ("nvmlDeviceGetPcieThroughput", UNKNOWN_32, "pcie_tx_bytes_per_s", "4.0 TiB/s"),
        ("nvmlDeviceGetPcieThroughput", UNKNOWN_32, "pcie_rx_bytes_per_s", "4.0 TiB/s"),
        ("nvmlDeviceGetFieldValues.91", UNKNOWN_32, "nvlinks", "4294967295 NVLinks"),
    ],
    ids=lambda part: part if isinstance(part, str) and part.islower() else "",
)
def test_what_is_read_while_somebody_looks_is_checked_as_well(
    busy_gpus: FakeGpus, looks: Looks, function: str, number: int, field: str, words: str
) -> None:
    busy_gpus.answer(function, number)
    key = looks.look().devices[0].key
    looks.source.watch(frozenset({key}))
    look = look_until(looks, lambda look: getattr(look.devices[0], field) not in (NOT_READ, NOT_LOOKED_AT))
    assert getattr(look.devices[0], field) == Absent(f"the driver answered {words}")


def test_nvlink_counters_that_jump_are_no_rate(busy_gpus: FakeGpus, looks: Looks) -> None:
    looks.source.watch(frozenset({looks.look().devices[0].key}))
    looks.look()
    busy_gpus.answer("nvmlDeviceGetFieldValues.138", UNKNOWN_64 // 1024)
    links = looks.look().devices[0].nvlinks
    assert isinstance(links, Absent)
    assert links.reason.startswith("the driver answered ")


def test_every_reading_that_is_a_number_declares_what_it_can_be() -> None:
    tried = {case[2] for case in READ_AT_EACH_LOOK} | {"pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlinks"}
    words_and_flags = {"throttle_reasons", "persistence_mode", "display_active", "mig_mode"}
    texts = {
        "name",
        "uuid",
        "bus_id",
        "serial",
        "vbios",
        "architecture",
        "compute_capability",
        "recovery_action",
        "compute_mode",
        "pstate",
    }
    elsewhere = {*PROFILED, "throttled"}
    assert tried == {reading.field for reading in READINGS} - words_and_flags - texts - elsewhere


def test_a_counter_of_throttling_that_falls_tells_nothing(fake_gpus: FakeGpus, looks: Looks) -> None:
    for second, power_ns in ((1, 5_000_000_000), (6, 0)):
        fake_gpus.set(1, throttle=0x4, slowed_until_us=second * 1_000_000, slowed_power_ns=power_ns)
        device = looks.look(after_s=5.0).devices[1]
    assert isinstance(device.throttled, Absent)
    assert device.throttled.reason.startswith("the driver answered -100% of the time for power")
    assert device.throttle_reasons == ("sw_power_cap",)


@pytest.mark.parametrize("number", [UNKNOWN_32, 1_000_000])
@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetCount_v2", "nvmlDeviceGetRunningProcesses", "nvmlDeviceGetMaxMigDeviceCount"]
)
def test_a_count_that_cannot_be_is_a_sentence(fake_gpus: FakeGpus, looks: Looks, function: str, number: int) -> None:
    fake_gpus.up(2, mig=1)
    fake_gpus.answer(function, number)
    look = looks.look()
    said = [*([look.problem] if look.problem else []), *(text for device in look.devices for text in device.problems)]
    assert any(f"answered {number}" in text for text in said), said


def test_a_process_holds_no_more_than_its_device_has(busy_gpus: FakeGpus, looks: Looks) -> None:
    busy_gpus.answer("nvmlDeviceGetRunningProcesses.used", 240 * GIB, device=0)
    look = looks.look()
    first, second = (device.key for device in look.devices)
    held = {use.device: use.used_bytes for use in look.uses}
    assert held[first] == Absent("the driver answered 240 GiB of 79.6 GiB")
    assert held[second] == 100 << 20


def test_no_number_that_cannot_be_is_printed(busy_gpus: FakeGpus) -> None:
    for function in ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates.gpu", "nvmlDeviceGetTemperature"):
        busy_gpus.answer(function, UNKNOWN_32, device=0)
    command = [sys.executable, "-m", "gputui", "--once", "--json"]
    printed = subprocess.run(command, env=busy_gpus.environment, capture_output=True, timeout=HANGS_S, check=False)
    assert printed.returncode == os.EX_OK, printed.stderr
    device = json.loads(printed.stdout)["devices"][0]
    absent = ("power_w", "gpu_utilization_percent", "temperature_c")
    assert [device[name] for name in absent] == [None, None, None]
    assert "power_w: the driver answered 4294967 W" in device["problems"]
