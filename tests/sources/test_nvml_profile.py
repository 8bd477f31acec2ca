"""True utilisation by GPM: the mean between two samples, of GPUs and MIG instances, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gputui.model.machine.device import Device
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.reading import NOT_READ, Absent, AbsentKind
from gputui.sources.nvml.gpm import NO_GPM
from tests.conftest import FakeGpus
from tests.hanging import NOT_WITHIN_S, wait_until
from tests.sources.conftest import Looks
from tests.sources.nvml_errors import REASONS, UNSUPPORTED
from tests.sources.waiting import look_until

NO_METRIC = 2**32 - 1
PCIE = "nvmlDeviceGetPcieThroughput"
METRICS = "nvmlGpmMetricsGet"


def has_profile(device: Device) -> bool:
    return device.profile_source == "gpm"


def shares(device: Device) -> Mapping[str, object]:
    return {field: getattr(device, field) for field in PROFILED}


@pytest.fixture
def profiled(fake_gpus: FakeGpus, looks: Looks) -> Looks:
    """A source of two GPUs with GPM."""
    fake_gpus.up(2, busy=True, gpm=True)
    looks.source.watch_profiles()
    return looks


def test_the_units_of_a_gpu_are_read_beside_how_busy_it_is(profiled: Looks) -> None:
    device, _ = look_until(profiled, lambda look: has_profile(look.devices[0])).devices
    assert [*shares(device).values()] == [89.0, 35.0, 38.0, 41.0, 0.0, 3.0, pytest.approx(0.1), 16.0, "gpm"]
    assert device.gpu_utilization_percent == 93


def test_a_reading_is_the_mean_since_the_one_before(fake_gpus: FakeGpus, profiled: Looks) -> None:
    look_until(profiled, lambda look: has_profile(look.devices[0]))
    wait_until(lambda: is_at_rest(profiled))
    fake_gpus.set(0, gpm_tensor=180)
    for mean in (28.0, 18.0):
        profiled.look(after_s=2)
        wait_until(lambda: profiled.look(after_s=0).devices[0].tensor_percent == mean)  # noqa: B023 - waits here


def is_at_rest(looks: Looks) -> bool:
    """Whether the thread waits for a look that is due."""
    gpm = looks.source._gpm
    with gpm._changed:
        return bool(gpm._changed._waiters) and gpm._pause_s() is None


def test_no_look_waits_for_a_sample(fake_gpus: FakeGpus, profiled: Looks) -> None:
    fake_gpus.fault("nvmlGpm*", delay_us=200_000)
    profiled.look()
    wait_until(lambda: "nvmlGpmQueryDeviceSupport" in fake_gpus.calls())

    def three_looks_take_less_than_a_call() -> bool:
        before = sum(count for name, count in fake_gpus.calls().items() if name.startswith("nvmlGpm"))
        for _ in range(3):
            profiled.look()
        return before == sum(count for name, count in fake_gpus.calls().items() if name.startswith("nvmlGpm"))

    wait_until(three_looks_take_less_than_a_call)


def test_a_program_that_looks_once_waits_for_it(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(2, busy=True, gpm=True)
    looks.source.watch_profiles(NOT_WITHIN_S)
    assert all(has_profile(device) for device in looks.look().devices)


def test_nothing_is_sampled_while_nobody_looks(fake_gpus: FakeGpus, profiled: Looks) -> None:
    look_until(profiled, lambda look: all(map(has_profile, look.devices)))
    wait_until(lambda: is_at_rest(profiled))


def test_instances_are_sampled_on_their_gpu(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=2, busy=True, gpm=True)
    fake_gpus.set(2, gpm_tensor=70)
    looks.source.watch_profiles()
    found = look_until(looks, lambda look: all(map(has_profile, look.devices))).devices
    assert [device.tensor_percent for device in found] == [38.0, 36.0, 7.0]


@pytest.mark.parametrize("gpm", [0, 7])
def test_a_gpu_without_gpm_is_asked_once_and_has_the_reason(fake_gpus: FakeGpus, looks: Looks, gpm: int) -> None:
    """Also where the query is answered and the sample is not."""
    fake_gpus.up(1, busy=True, gpm=bool(gpm))
    if gpm:
        fake_gpus.fault("nvmlGpmSampleGet", error=3)
    looks.source.watch_profiles()
    look = look_until(looks, lambda look: look.devices[0].profile_source != NOT_READ)
    assert set(shares(look.devices[0]).values()) == {NO_GPM}
    assert NO_GPM.kind is AbsentKind.NOT_SUPPORTED
    fake_gpus.clear("calls")
    for _ in range(5):
        looks.look(after_s=3)
    assert not [name for name in fake_gpus.calls() if name.startswith("nvmlGpm")]


@pytest.mark.parametrize("error", sorted(REASONS.keys() - UNSUPPORTED))
def test_an_error_is_the_reason_until_it_has_passed(fake_gpus: FakeGpus, profiled: Looks, error: int) -> None:
    fake_gpus.fault(METRICS, error=error)
    look = look_until(profiled, lambda look: look.devices[0].tensor_percent != NOT_READ)
    assert isinstance(look.devices[0].tensor_percent, Absent)
    assert REASONS[error] in look.devices[0].tensor_percent.reason
    assert look.devices[0].gpu_utilization_percent == 93
    fake_gpus.clear("faults")
    look_until(profiled, lambda look: has_profile(look.devices[0]))


def test_errors_take_no_more_memory_for_samples(fake_gpus: FakeGpus, profiled: Looks) -> None:
    fake_gpus.fault(METRICS, error=999)
    wait_until(lambda: profiled.look() and fake_gpus.calls().get(METRICS, 0) > 10)
    assert fake_gpus.calls()["nvmlGpmSampleAlloc"] == 4


def test_a_metric_that_is_not_there_leaves_the_others(fake_gpus: FakeGpus, profiled: Looks) -> None:
    fake_gpus.set(0, gpm_tensor=NO_METRIC)
    fake_gpus.answer(f"{METRICS}.10", 5_000)
    device, other = look_until(profiled, lambda look: all(map(has_profile, look.devices))).devices
    assert device.tensor_percent == Absent(REASONS[3], AbsentKind.NOT_SUPPORTED)
    assert device.dram_percent == Absent("the driver answered 500%")
    assert device.sm_active_percent == 89.0
    assert other.tensor_percent == 36.0


def test_pcie_rates_come_from_gpm_and_the_slow_counter_is_not_asked(fake_gpus: FakeGpus, profiled: Looks) -> None:
    look = look_until(profiled, lambda look: all(map(has_profile, look.devices)))
    assert look.devices[0].pcie_rx_bytes_per_s == 2100 << 20
    profiled.source.watch(frozenset(device.key for device in look.devices))
    fake_gpus.clear("calls")
    assert profiled.look().devices[0].pcie_tx_bytes_per_s == 1400 << 20
    assert PCIE not in fake_gpus.calls()


def test_a_gpu_that_was_lost_is_sampled_again(fake_gpus: FakeGpus, profiled: Looks) -> None:
    look_until(profiled, lambda look: has_profile(look.devices[0]))
    fake_gpus.fault("nvmlDevice*", error=15, device=0)
    lost = look_until(profiled, lambda look: look.devices[0].lost)
    assert isinstance(lost.devices[0].tensor_percent, Absent)
    fake_gpus.clear("faults")
    look_until(profiled, lambda look: not look.devices[0].lost and has_profile(look.devices[0]))
