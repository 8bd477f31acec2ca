"""The benchmark on a real GPU: it runs to its end on a fake one, and what differs from nvidia-smi is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest

from benchmarks.real_gpu.nameless import without_names
from benchmarks.real_gpu.parts import ALONE, BESIDE
from benchmarks.real_gpu.readings import compare
from benchmarks.real_gpu.report import HEADINGS, SCHEMA
from benchmarks.real_gpu.result import Result
from gputui.model.machine.device import (
    Bar1,
    Device,
    DeviceLook,
    DeviceMemory,
    DeviceUse,
    Driver,
    MigMode,
    PcieLink,
    RemappedRows,
)
from gputui.model.reading import Absent
from gputui.units import MIB
from tests.attach.conftest import sockets  # noqa: F401 - a fixture
from tests.hanging import HANGS_S
from tests.torches import REPOSITORY

SMI = Path(__file__).parent / "data" / "nvidia_smi" / "h200.xml"
ONLY_REAL = {"nvidia-smi knows no fake GPUs: no reading was compared."}
NOT_THERE = Absent("not supported by this device")


@pytest.mark.night
def test_it_runs_to_its_end_on_a_fake_gpu(cuda_path: str, tmp_path: Path, sockets: Path) -> None:  # noqa: F811
    file = tmp_path / "report.json"
    words = [sys.executable, "-m", "benchmarks.real_gpu", "--fake", "--brief", "--json", str(file)]
    variables = {**os.environ, "GPUTUI_TEST_TORCH": cuda_path}
    ended = subprocess.run(
        words, check=False, env=variables, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_S
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(file.read_text())
    parts = report["parts"]
    assert (report["schema"], report["is_fake"], [*parts]) == (SCHEMA, True, [*ALONE, *BESIDE])
    assert all(report[name] for name in ("gputui", "device", "capability", "torch", "python", "driver", "date"))
    assert {sentence for part in parts.values() for sentence in part["left_out"]} == ONLY_REAL
    assert [one for part in parts.values() for one in part["differs"] if not one["is_time"]] == []
    assert all(part["figures"] for part in parts.values())
    assert ended.stdout.splitlines()[-1].startswith(f"| {report['device']} | {report['driver']} |")
    assert str(tmp_path) not in file.read_text()


def test_the_table_of_the_documentation_has_the_columns_of_the_row_that_is_printed() -> None:
    assert f"\n| {' | '.join(HEADINGS)} |\n" in (REPOSITORY / "docs" / "versions.md").read_text()


H200 = Device(
    0,
    "GPU-00000000-1111-2222-3333-444444444444",
    "NVIDIA H200",
    "00000000:00:06.0",
    memory=DeviceMemory(150_754_820_096, 21_681_209_344, 128_428_670_976, 644_939_776),
    gpu_utilization_percent=98,
    memory_utilization_percent=46,
    encoder_percent=0,
    decoder_percent=0,
    temperature_c=57,
    memory_temperature_c=59,
    fan_percent=NOT_THERE,
    power_w=640.59,
    power_limit_w=700.0,
    sm_clock_mhz=1965,
    memory_clock_mhz=3201,
    max_sm_clock_mhz=1980,
    max_memory_clock_mhz=3201,
    pstate="P0",
    throttle_reasons=(),
    pcie=PcieLink(5, 16, 5, 16),
    bar1=Bar1(274_877_906_944, 21_682_978_816),
    ecc_corrected=0,
    ecc_uncorrected=0,
    remapped_rows=RemappedRows(0, 0, pending=False, failed=False),
    retired_pages=NOT_THERE,
    recovery_action="none",
    persistence_mode=True,
    compute_mode="default",
    display_active=False,
    mig_mode=MigMode(is_enabled=False, is_enabled_after_reset=False),
    vbios="96.00.A5.00.1A",
    serial="1650000000000",
    architecture="Hopper",
)
USE = DeviceUse(H200.key, 1418, "C", 20668 * MIB)


def smi() -> Element:
    return fromstring(SMI.read_text())


def differences(device: Device, use: DeviceUse = USE) -> list[str]:
    result = Result()
    compare(result, [DeviceLook(Driver("580.159.04", "13.0"), (device,), (use,))] * 2, smi())
    return [difference.what.partition(" ")[0] for difference in result.differs]


def test_what_nvml_answered_is_what_nvidia_smi_says() -> None:
    result = Result()
    compare(result, [DeviceLook(Driver("580.159.04", "13.0"), (H200,), (USE,))] * 2, smi())
    assert result.differs == []
    assert result.figures["not in this nvidia-smi"] == ["shutdown_temperature_c", "slowdown_temperature_c"]
    assert result.figures["processes of GPU 0: gputui, nvidia-smi, both"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"memory": DeviceMemory(150_754_820_096, 22_326_149_120, 128_428_670_976, None)}, 2),
        ({"temperature_c": 80}, 1),
        ({"fan_percent": 0}, 1),
        ({"architecture": NOT_THERE}, 1),
        ({"throttle_reasons": ("hw_thermal_slowdown",)}, 1),
        ({"throttle_reasons": ("sw_power_cap",)}, 0),
        ({"remapped_rows": RemappedRows(0, 0, pending=True, failed=False)}, 1),
        ({"pcie": PcieLink(5, 8, 5, 16)}, 1),
        ({"serial": "1"}, 1),
    ],
)
def test_a_reading_that_is_another_is_found(change: dict[str, object], named: int) -> None:
    found = differences(H200._replace(**change))
    assert len(found) == named
    assert all(name.partition(".")[0] in change for name in found)


def test_a_process_that_holds_something_else_is_found() -> None:
    assert differences(H200, USE._replace(used_bytes=20000 * MIB)) == ["what"]


def test_identities_are_not_printed() -> None:
    result = Result()
    compare(result, [DeviceLook(Driver("580.159.04", "13.0"), (H200._replace(serial="42"),), (USE,))] * 2, smi())
    assert "1650000000000" not in str(result.differs[0])
    assert "42" not in str(result.differs[0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("No such file: /home/ana/lab/train.py:39", "No such file: train.py:39"),
        ("Process 1418 has no probe. To put it in: gputui attach 1418 --yes.",
         "Process N has no probe. To put it in: gputui attach N --yes."),
        ("GPU-00000000-1111-2222-3333-444444444444 of ana on node7", "UUID of NAME on NAME"),
        ("banana 12.5 MiB/s, 3/4 of it", "banana 12.5 MiB/s, 3/4 of it"),
    ],
)  # fmt: skip
def test_a_report_has_no_names(text: str, told: str) -> None:
    assert without_names({"a": [text, 7]}, lambda: ["ana", "node7", "me"]) == {"a": [told, 7]}
