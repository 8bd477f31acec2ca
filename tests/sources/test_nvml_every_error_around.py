"""Every NVML error from calls that are not readings: devices, counts, links, instances, NVML and the driver."""

from __future__ import annotations

from functools import partial

import pytest

from gputui.model.reading import NOT_LOOKED_AT, Absent
from gputui.sources.nvml.binding import Nvml
from gputui.sources.nvml.pcie import PcieRates
from tests.conftest import FakeGpus
from tests.hanging import wait_until
from tests.sources.conftest import Looks
from tests.sources.nvml_errors import (
    COUNT,
    DRIVER,
    END,
    GONE,
    INIT,
    LOST,
    MIG,
    NVLINK,
    OLD_INIT,
    OPEN,
    PCIE,
    REASONS,
    UNSUPPORTED,
    VICTIM,
    absent,
    absent_field,
    each_error,
)


def test_a_device_that_cannot_be_opened_is_lost_until_it_opens(busy_gpus: FakeGpus, looks: Looks) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, OPEN):
        look = faulty.look()
        first, victim = look.devices
        assert (look.problem, first) == (None, well.devices[0]), error
        assert victim.lost, error
        assert {victim.power_w, victim.memory, victim.temperature_c} == {absent(error)}, error
        busy_gpus.clear("faults")
        assert faulty.look(after_s=3).devices == well.devices, error


def test_an_nvml_error_from_one_device_does_not_affect_the_others(busy_gpus: FakeGpus, looks: Looks) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, "nvmlDeviceGet*"):
        look = faulty.look()
        assert (look.problem, look.devices[0]) == (None, well.devices[0]), error
        busy_gpus.clear("faults")
        assert faulty.look(after_s=3).devices == well.devices, error


@pytest.mark.parametrize("function", [INIT, COUNT])
def test_nvml_is_a_problem_until_it_works_again(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, function, device=-1):
        if function == INIT:
            busy_gpus.fault(OLD_INIT, error=error)  # is called where this is not known
        look = faulty.look()
        assert look.devices == (), error
        assert look.problem, error
        assert look.problem.count(". ") >= 1, error
        busy_gpus.clear("faults")
        assert faulty.look(after_s=3).devices == well.devices, error


def test_a_failing_nvml_shutdown_is_ignored(busy_gpus: FakeGpus, looks: Looks) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, END, device=-1):
        faulty.look()
        faulty.source.close()
        assert busy_gpus.calls()[END] == 1, error
        assert looks.look().devices == well.devices


@pytest.mark.parametrize("function", DRIVER)
def test_devices_are_read_without_the_driver_version(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, function, device=-1):
        look = faulty.look()
        driver = well.driver._replace(**{DRIVER[function]: absent(error)})
        assert (look.driver, look.devices) == (driver, well.devices), error
        busy_gpus.clear("faults")
        assert faulty.look(after_s=31).driver == (driver if error in UNSUPPORTED else well.driver), error


@pytest.mark.parametrize("is_known", [True, False], ids=["seen before", "from the start"])
@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", *MIG, "nvmlDeviceGetUUID"])
def test_an_error_about_mig_instances_affects_no_other_device(
    busy_gpus: FakeGpus, looks: Looks, function: str, *, is_known: bool
) -> None:
    busy_gpus.up(2, mig=2, fan=40)
    well = looks.look().devices
    device = VICTIM if function in {"nvmlDeviceGetMigMode", *MIG[:2]} else 2  # the GPU or its first instance
    for error, faulty in each_error(busy_gpus, function, device):
        if is_known:
            busy_gpus.clear("faults")
            faulty.look()
            busy_gpus.fault(function, error=error, device=device)
        look = faulty.look(after_s=5).devices
        assert look[0] == well[0], error
        if is_known and error not in {2, 6, *LOST, *UNSUPPORTED}:
            assert look[3] == well[3], error
            assert (look[2].key, look[2].index) == (well[2].key, 2), error
        busy_gpus.clear("faults")
        if error not in UNSUPPORTED:
            faulty.look(after_s=5)
            assert faulty.look(after_s=5).devices == well, error


@pytest.mark.parametrize("function", [NVLINK, "nvmlDeviceGetFieldValues.91", "nvmlDeviceGetFieldValues.138"])
def test_an_nvlink_error_is_not_reported_as_an_inactive_link(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    key = looks.look().devices[1].key
    looks.source.watch(frozenset({key}))
    well = looks.look().devices[1].nvlinks
    for error, faulty in each_error(busy_gpus, function):
        faulty.source.watch(frozenset({key}))
        faulty.look()
        first, victim = faulty.look().devices
        assert first.nvlinks == NOT_LOOKED_AT, error
        if function == NVLINK:
            reason = "this device has no NVLinks" if error in {2, *UNSUPPORTED} else REASONS[error]
            assert victim.nvlinks == Absent(reason), error
        elif function.endswith(".91"):
            assert victim.nvlinks == absent_field(error), error
        else:
            assert victim.nvlinks == well, error


def _has_rates(rates: PcieRates) -> bool:
    return rates.readings() == {"gpu": (1_400_000 * 1024, 2_100_000 * 1024)}


def test_a_pcie_counter_error_is_the_reason_of_its_rate(busy_gpus: FakeGpus) -> None:
    for error in REASONS:
        busy_gpus.clear("faults", "calls")
        busy_gpus.fault(PCIE, error=error)
        nvml, rates = Nvml(), PcieRates(interval_s=0.001)
        rates.serve(nvml, {"gpu": nvml.call("nvmlDeviceGetHandleByIndex", 0)})
        rates.watch(frozenset({"gpu"}))
        wait_until(rates.readings)
        assert rates.readings() == {"gpu": (absent(error),) * 2}, error
        if error not in UNSUPPORTED:
            busy_gpus.clear("faults")
            wait_until(partial(_has_rates, rates))
        rates.close()
        nvml.close()


@pytest.mark.parametrize("error", sorted(GONE))
def test_an_nvml_error_from_all_devices_is_a_problem_of_nvml(busy_gpus: FakeGpus, looks: Looks, error: int) -> None:
    well = looks.look().devices
    busy_gpus.fault("nvmlDevice*", error=error)
    look = looks.look(after_s=0.5)
    assert look.problem
    assert look.devices == ()
    busy_gpus.clear("faults")
    assert looks.look(after_s=3).devices == well
