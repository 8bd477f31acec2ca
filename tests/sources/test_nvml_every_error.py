"""Every NVML error from every function about a device, one at a time, on one of two devices.

Each affects the readings that need the call and nothing else: no other reading or device, no traceback, no zero.
"""

from __future__ import annotations

import pytest

from gputui.model.machine.device import DeviceLook
from gputui.model.reading import Absent, AbsentKind
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks
from tests.sources.nvml_errors import (
    CALLED,
    FIELDS,
    FIRST_LISTS,
    LISTS,
    LOST,
    NAMED,
    OTHERWISE,
    PCIE,
    REASONS,
    SM_USE,
    UNKNOWN_YET,
    UNSUPPORTED,
    VICTIM,
    absent,
    absent_field,
    check_victim_is_lost,
    each_error,
    uses_of,
)
from tests.sources.waiting import look_until


def test_the_tables_cover_every_error_and_every_call(busy_gpus: FakeGpus) -> None:
    assert set(REASONS) > NAMED
    busy_gpus.up(2, mig=2, fan=40)
    busy_gpus.ghost(2, mib=100)
    looks = Looks()
    keys = frozenset(device.key for device in looks.look().devices)
    looks.source.watch(keys)
    look_until(looks, lambda _: PCIE in busy_gpus.calls())
    looks.source.close()
    assert set(busy_gpus.calls()) == CALLED


@pytest.mark.parametrize("function", FIELDS)
def test_an_error_affects_only_the_readings_of_its_call(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, function):
        look = faulty.look()
        assert look.problem is None, error
        if error in LOST:
            check_victim_is_lost(look, well, error)
        elif not (function in OTHERWISE and error in UNSUPPORTED):
            readings = {field: UNKNOWN_YET.get(field, absent(error)) for field in FIELDS[function]}
            assert look.devices == (well.devices[0], well.devices[1]._replace(**readings)), error
            assert uses_of(look, look.devices[1]) == uses_of(well, well.devices[1]), error
        check_what_is_asked_again(busy_gpus, faulty, function, error, well)


def check_what_is_asked_again(busy_gpus: FakeGpus, faulty: Looks, function: str, error: int, well: DeviceLook) -> None:
    """Check that an unsupported call is not repeated, and that any other error ends once the call works again."""
    before = faulty.look(after_s=31).devices[VICTIM]
    busy_gpus.clear("faults", "calls")
    after = faulty.look(after_s=31)
    if error in UNSUPPORTED and function not in OTHERWISE:
        assert after.devices[VICTIM] == before, error
        assert after.devices[0] == well.devices[0], error
    elif error not in UNSUPPORTED:
        assert after.devices == well.devices, error


@pytest.mark.parametrize("function", FIELDS)
def test_an_unsupported_call_is_made_once(busy_gpus: FakeGpus, function: str) -> None:
    busy_gpus.up(1, fan=40)
    for error, faulty in each_error(busy_gpus, function, device=0):
        assert faulty.look().problem is None, error  # an error from one call is not a problem of NVML
        busy_gpus.clear("calls")
        faulty.look(after_s=31)
        is_called = function in busy_gpus.calls()
        if error in UNSUPPORTED:
            assert not is_called, error
        elif error not in LOST:
            assert is_called, error


@pytest.mark.parametrize("function", sorted(OTHERWISE.keys() & FIELDS))
def test_an_older_function_replaces_an_unknown_one(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    field, well = FIELDS[function][0], looks.look()
    for error, faulty in each_error(busy_gpus, function):
        if error in UNSUPPORTED:
            first, victim = faulty.look().devices
            assert not isinstance(getattr(victim, field), Absent), error
            assert (first, victim._replace(**{field: getattr(well.devices[1], field)})) == well.devices, error


@pytest.mark.parametrize("function", sorted(OTHERWISE.keys() & FIELDS))
def test_an_error_of_the_older_function_is_the_reason(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, OTHERWISE[function]):
        busy_gpus.fault(function, error=13, device=VICTIM)
        look = faulty.look()
        if error in LOST:
            check_victim_is_lost(look, well, error)
            continue
        shares = function == "nvmlDeviceGetMemoryInfo_v2" and error == 3
        shared = Absent("this GPU has no memory of its own: it shares the host's", AbsentKind.NOT_SUPPORTED)
        readings = {FIELDS[function][0]: shared if shares else absent(error), "shares_host_memory": shares}
        assert look.devices == (well.devices[0], well.devices[1]._replace(**readings)), error


@pytest.mark.parametrize(
    ("number", "field"), [(82, "memory_temperature_c"), (83, "energy_j"), (230, "recovery_action")]
)
def test_an_error_of_one_field_affects_only_that_field(
    busy_gpus: FakeGpus, looks: Looks, number: int, field: str
) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, f"nvmlDeviceGetFieldValues.{number}"):
        expected = well.devices[1]._replace(**{field: absent_field(error)})
        assert faulty.look().devices == (well.devices[0], expected), error
        busy_gpus.clear("faults")
        assert faulty.look(after_s=5).devices == well.devices, error


@pytest.mark.parametrize("function", LISTS)
def test_a_failed_process_list_is_a_problem_of_the_device(busy_gpus: FakeGpus, looks: Looks, function: str) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, function):
        look = faulty.look()
        first, victim = look.devices
        if error in LOST:
            check_victim_is_lost(look, well, error)
            continue
        if error in UNSUPPORTED:  # the function's second version replaces it
            assert (look.devices, look.uses) == (well.devices, well.uses), error
            continue
        sentence = f"The processes on this GPU cannot be listed: {REASONS[error]}."
        expected = well.devices[1]._replace(problems=(sentence,), unlisted=absent(error))
        assert look.devices == (well.devices[0], expected), error
        assert uses_of(look, first) == uses_of(well, first), error
        assert uses_of(look, victim) == ([] if LISTS[function] == "C" else uses_of(well, victim)), error


@pytest.mark.parametrize("function", LISTS)
def test_an_unknown_process_list_is_a_problem_only_for_compute_processes(busy_gpus: FakeGpus, function: str) -> None:
    for error, faulty in each_error(busy_gpus, FIRST_LISTS[function]):
        for newer in (function, OTHERWISE[function]):
            busy_gpus.fault(newer, error=13, device=VICTIM)
        if error in UNSUPPORTED:
            problems = [f"The processes on this GPU cannot be listed: {REASONS[error]}."]
            assert list(faulty.look().devices[1].problems) == (problems if LISTS[function] == "C" else []), error


def test_an_error_of_process_samples_affects_only_the_samples(busy_gpus: FakeGpus, looks: Looks) -> None:
    well = looks.look()
    for error, faulty in each_error(busy_gpus, SM_USE):
        look = faulty.look()
        if error in LOST:
            check_victim_is_lost(look, well, error)
            continue
        no_sample = Absent("no sample in the last interval", AbsentKind.NOT_SAMPLED)
        reason = no_sample if error == 6 else absent(error)
        assert look.devices == well.devices, error
        assert uses_of(look, look.devices[0]) == uses_of(well, well.devices[0]), error
        expected = [(pid, kind, used, reason) for pid, kind, used, _ in uses_of(well, well.devices[1])]
        assert uses_of(look, look.devices[1]) == expected, error
