"""The page of fake GPUs: what is on it, what stays on it, and what it leaves out when a source is late."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics

from gputui.export import sources
from gputui.export.collector import FAMILIES, MachineCollector
from gputui.export.families import names_of
from gputui.export.sources import OneAtATime, Readings, Source, Sources
from gputui.model.machine.device import Device, DeviceLook, DeviceUse
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, Process, ProcessLook, ProcessState
from tests.conftest import FakeGpus
from tests.export.pages import OPEN_METRICS, Page, Scrapes
from tests.export.readings import cluster_node
from tests.hanging import HANGS_S, NOT_WITHIN_S, wait_until
from tests.torches import REPOSITORY

GONE = 15
VERSION_MISMATCH = 18


@pytest.fixture
def scrapes(fake_gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scrapes]:
    """Pages of two busy GPUs, the second with MIG instances, and patience that a busy machine does not exhaust.

    Nobody waits for probes: root's list has those of all that runs beside the tests.
    """
    monkeypatch.setattr(sources, "DEVICES_WITHIN_S", HANGS_S)
    monkeypatch.setattr(sources, "PROCESSES_WITHIN_S", HANGS_S)
    monkeypatch.setattr(sources, "PROBES_WITHIN_S", 0)
    fake_gpus.up(2, mig=2, busy=True, gpm=True)
    fake_gpus.process(os.getpid(), {0: 4096}, sm=40)
    read = Sources()
    yield Scrapes(read)
    read.close()


class Fixed:
    """Sources that say the same each time."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings

    def read(self) -> Readings:
        return self.readings


def test_readings_are_in_base_units(fake_gpus: FakeGpus, scrapes: Scrapes) -> None:
    page = scrapes.page()
    assert page.of("gputui_nvml_up") == [1]
    assert page.of("gputui_device_busy_ratio", gpu=0) == [0.93]
    assert page.of("gputui_device_power_watts", gpu=0) == [540]
    assert page.of("gputui_device_sm_clock_hertz", gpu=0) == [1.755e9]
    assert page.of("gputui_device_temperature_slowdown_margin_celsius", gpu=0) == [89 - 64]
    assert page.of("gputui_device_clocks_limited", gpu=0, reason="sw_power_cap") == [1]
    assert page.of("gputui_device_clocks_limited", gpu=0, reason="hw_thermal") == [0]
    (used,) = page.of("gputui_process_memory_used_bytes", pid=os.getpid(), gpu=0)
    assert used == 4096 * 1024**2
    assert page.of("gputui_process_busy_ratio", pid=os.getpid()) == [0.4]
    (memory,) = page.of("gputui_device_memory_capacity_bytes", gpu=0)
    assert memory == int(79.65 * 1024) * 1024**2


def test_true_utilisation_comes_with_the_next_scrapes(scrapes: Scrapes) -> None:
    wait_until(lambda: scrapes.page().of("gputui_device_tensor_active_ratio", gpu=0) == [0.38])
    assert scrapes.page().of("gputui_mig_sm_active_ratio", gpu=1)


def test_instances_are_in_families_of_their_own(scrapes: Scrapes) -> None:
    page = scrapes.page()
    assert [labels["gpu"] for labels in page.labels("gputui_device_info")] == ["0", "1"]
    gpu = page.labels("gputui_device_info")[1]["UUID"]
    instances = page.labels("gputui_mig_info")
    assert [(one["UUID"], one["gpu"], one["GPU_I_ID"]) for one in instances] == [(gpu, "1", "1"), (gpu, "1", "2")]
    assert {one["GPU_I_PROFILE"] for one in instances} == {"1g.10gb"}
    assert len(page.of("gputui_mig_memory_capacity_bytes", UUID=gpu)) == 2
    assert len(page.of("gputui_device_memory_capacity_bytes")) == 2


def test_a_gpu_that_is_gone_stays_and_is_lost(fake_gpus: FakeGpus, scrapes: Scrapes) -> None:
    assert scrapes.page().of("gputui_device_lost") == [0, 0]
    before = scrapes.page().labels("gputui_device_info")
    fake_gpus.fault("nvmlDeviceGet*", device=1, error=GONE)
    wait_until(lambda: scrapes.page().of("gputui_device_lost") == [0, 1])
    page = scrapes.page()
    assert page.labels("gputui_device_info") == before
    assert page.of("gputui_device_temperature_celsius", gpu=1) == []
    assert page.of("gputui_device_temperature_celsius", gpu=0) == [64]
    fake_gpus.clear("faults")
    wait_until(lambda: scrapes.page().of("gputui_device_lost") == [0, 0])


def test_a_gpu_that_is_not_listed_any_more_is_lost() -> None:
    both = tuple(Device(index, f"GPU-{index}", "NVIDIA H100", "") for index in range(2))
    fixed = Fixed(Readings(DeviceLook(devices=both)))
    scrapes = Scrapes(fixed)
    assert scrapes.page().of("gputui_device_lost") == [0, 0]
    fixed.readings = Readings(DeviceLook(devices=both[:1]))
    page = scrapes.page()
    assert page.of("gputui_device_lost", gpu=1, UUID="GPU-1") == [1]
    assert page.of("gputui_device_lost", gpu=0) == [0]


def test_without_a_driver_nobody_knows_which_gpus_are_lost(fake_gpus: FakeGpus, scrapes: Scrapes) -> None:
    scrapes.page()
    fake_gpus.fault("nvml*", error=VERSION_MISMATCH)
    wait_until(lambda: scrapes.page().of("gputui_nvml_up") == [0])
    page = scrapes.page()
    assert len(page.of("gputui_device_info")) == 2
    assert page.of("gputui_device_lost") == []
    assert page.of("gputui_scrape_source_errors_total", source="nvml")[0] >= 2
    assert "different versions" in dict(scrapes.collector.problems)[Source.NVML]


def test_a_driver_that_hangs_delays_no_page(
    fake_gpus: FakeGpus, scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrapes.page()
    monkeypatch.setattr(sources, "DEVICES_WITHIN_S", NOT_WITHIN_S)
    fake_gpus.fault("nvmlDeviceGetTemperature*", delay_us=3_600_000_000)
    page = scrapes.page()
    assert page.of("gputui_nvml_up") == [0]
    assert page.of("gputui_device_power_watts") == []
    assert page.of("gputui_scrape_source_errors_total", source="nvml") == [1]
    assert len(page.of("gputui_device_info")) == 2
    assert scrapes.page().of("gputui_scrape_source_errors_total", source="nvml") == [2]


def test_scrapers_that_wait_for_one_another_share_a_reading() -> None:
    goes_on, begun, looked = Event(), [], []

    def clock() -> float:
        looked.append(1)
        return len(looked)

    class Slow:
        def read(self) -> Readings:
            begun.append(1)
            goes_on.wait(HANGS_S)
            return Readings(DeviceLook())

    collector = MachineCollector(Slow(), clock)
    with ThreadPoolExecutor(4) as scrapers:
        first = scrapers.submit(collector.collect)
        wait_until(lambda: begun)
        others = [scrapers.submit(collector.collect) for _ in range(3)]
        wait_until(lambda: len(looked) == 2 + len(others))  # each has looked at the clock as it came
        goes_on.set()
        assert {len(list(page.result())) for page in (first, *others)} == {4}
    assert len(begun) == 2


def test_work_that_hangs_is_not_begun_again() -> None:
    goes_on, begun = Event(), []
    work = OneAtATime[int]("test")

    def hang() -> int:
        begun.append(1)
        goes_on.wait(HANGS_S)
        return 1

    first = work.begin(hang)
    wait_until(lambda: begun)
    assert work.begin(hang).result(0) is None
    assert first.result(0) is None
    goes_on.set()
    wait_until(lambda: first.result(0) == 1)
    assert work.begin(lambda: 2).result(float("inf")) == 2
    assert len(begun) == 1


def test_a_late_list_of_processes_leaves_the_rest() -> None:
    use = DeviceUse("GPU-0", 7, "C", 5)
    device = Device(0, "GPU-0", "NVIDIA H100", "", power_w=300.0)
    look = DeviceLook(devices=(device,), uses=(use,))
    page = Scrapes(Fixed(Readings(look, problems=((Source.PROC, "late"),)))).page()
    assert page.of("gputui_process_memory_used_bytes", pid=7, UUID="GPU-0") == [5]
    assert page.of("gputui_device_power_watts", gpu=0) == [300]
    assert page.of("gputui_scrape_source_errors_total", source="proc") == [1]
    assert page.labels("gputui_process_info") == []


def test_whose_a_process_is_stands_on_its_info_alone() -> None:
    owner = Owner(job="4711", step="0", namespace="ml", pod="train-0", container="c" * 64, unit="x.service")
    command = "python /home/ana/train.py --api-key=secret"
    process = Process(Identity(7, 1.5), ProcessState.RUNNING, user="ana", command=command, owner=owner)
    page = Scrapes(Fixed(Readings(DeviceLook(), ProcessLook((process,))))).page()
    (labels,) = page.labels("gputui_process_info")
    assert labels == {
        "pid": "7",
        "user": "ana",
        "program": "train.py",
        "slurm_job_id": "4711",
        "slurm_step_id": "0",
        "namespace": "ml",
        "pod": "train-0",
        "container_id": "c" * 64,
        "unit": "x.service",
    }
    assert page.of("gputui_process_start_time_seconds", pid=7) == [1.5]
    assert "secret" not in page.text


def test_no_text_is_a_label_of_a_value() -> None:
    """Texts change, and each change would begin a series anew."""
    page = Scrapes(Fixed(cluster_node(gpus=2, ranks=2))).page()
    names = {"UUID", "gpu", "GPU_I_ID", "pid", "rank", "reason", "source"}
    labels = {
        name: set(sample.labels)
        for sample in page.samples
        for name in [sample.name]
        if name.startswith("gputui_") and not name.endswith("_info")
    }
    assert {name: extra - names for name, extra in labels.items() if extra - names} == {}


def test_two_samples_are_never_the_same() -> None:
    """Prometheus would refuse the page: of a driver's list with a process twice, the first counts."""
    use = DeviceUse("GPU-0", 7, "C", 5)
    look = DeviceLook(devices=(Device(0, "GPU-0", "NVIDIA H100", ""),), uses=(use, use._replace(used_bytes=6)))
    assert Scrapes(Fixed(Readings(look))).page().of("gputui_process_memory_used_bytes") == [5]


def test_processes_that_the_driver_lists_without_a_pid_count_one_by_one() -> None:
    uses = tuple(DeviceUse("GPU-0", pid, "C", 5) for pid in (0, 0, 0, 7, 7))
    page = Scrapes(Fixed(Readings(DeviceLook(devices=(Device(0, "GPU-0", "NVIDIA H100", ""),), uses=uses)))).page()
    assert page.of("gputui_device_processes", gpu=0) == [4]


def test_every_metric_is_on_a_full_page() -> None:
    assert set(names_of(FAMILIES)) - full_page().names == set()


def full_page() -> Page:
    return Scrapes(Fixed(cluster_node(gpus=2, ranks=2, mig=True))).page()


def test_one_page_can_be_asked_for_some_metrics() -> None:
    registry = CollectorRegistry()
    registry.register(MachineCollector(Fixed(cluster_node(gpus=1, ranks=1))))
    page = Page(generate_latest(registry.restricted_registry(["gputui_device_info"])).decode())
    assert page.names == {"gputui_device_info"}


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_page() -> None:
    check = subprocess.run(
        ["promtool", "check", "metrics"], input=full_page().text, capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")


def test_open_metrics_are_what_the_strict_parser_accepts() -> None:
    registry = CollectorRegistry()
    registry.register(MachineCollector(Fixed(cluster_node(gpus=2, ranks=2, mig=True))))
    text = generate_open_metrics(registry).decode()
    assert Page(text, OPEN_METRICS).names == full_page().names
    assert text.endswith("# EOF\n")
    assert "# UNIT gputui_torch_reserved_bytes bytes\n" in text


def test_the_page_of_the_documentation_lists_exactly_the_metrics() -> None:
    text = (REPOSITORY / "docs" / "export.md").read_text()
    rows = re.findall(r"^\| `(gputui_\w+)` \| ([^|]*) \| (.*) \|$", text, flags=re.MULTILINE)
    page = full_page()
    assert rows == [
        (
            family.sample_name,
            ", ".join(dict.fromkeys(label for labels in page.labels(family.sample_name) for label in labels)),
            family.meaning,
        )
        for family in FAMILIES
    ]
