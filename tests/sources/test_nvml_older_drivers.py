"""Drivers that lack a function: each behind a reading is missing from the library once, and all that old ones lack."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from gputui.model.machine.device import DeviceLook, DeviceMemory
from gputui.model.reading import Absent
from tests.conftest import FakeGpus
from tests.fakegpu.lab import without
from tests.sources.conftest import Looks
from tests.sources.nvml_errors import (
    FIELDS,
    FIRST_LISTS,
    INIT,
    LISTS,
    MIG,
    OTHERWISE,
    UNKNOWN_YET,
)

TOO_OLD = Absent("not known to this driver")


def older(fake_gpus: FakeGpus, tmp_path: Path, *functions: str) -> Looks:
    """A source with the state of `fake_gpus`, whose library lacks the functions."""
    library = fake_gpus.library_folder / "libnvidia-ml.so.1"
    for number, function in enumerate(functions):
        library = without(library, function, tmp_path / f"older-{number}.so")
    loaded = ctypes.CDLL(str(library))
    assert not any(hasattr(loaded, function) for function in functions)
    loaded.fg_use(str(fake_gpus.path).encode())
    pynvml.nvmlLib = loaded
    pynvml._nvmlGetFunctionPointer_cache.clear()
    return Looks()


@pytest.fixture
def well(fake_gpus: FakeGpus, looks: Looks) -> Iterator[DeviceLook]:
    """Two busy GPUs with processes, read with a driver that has every function."""
    fake_gpus.up(2, busy=True, fan=40)
    fake_gpus.ghost(4, mib=100)
    look = looks.look()
    looks.source.close()
    return look


@pytest.mark.parametrize("function", FIELDS)
def test_a_missing_function_affects_only_its_reading(
    fake_gpus: FakeGpus, tmp_path: Path, well: DeviceLook, function: str
) -> None:
    looks = older(fake_gpus, tmp_path, function, *([OTHERWISE[function]] if function in OTHERWISE else []))
    look = looks.look()
    assert look.problem is None
    for device, known in zip(look.devices, well.devices, strict=True):
        stand_ins = {**UNKNOWN_YET, "name": f"GPU {known.index}"}
        assert device == known._replace(**{field: stand_ins.get(field, TOO_OLD) for field in FIELDS[function]})
    assert len(look.uses) == 4
    looks.source.close()


@pytest.mark.parametrize(("function", "kind"), LISTS.items())
def test_a_missing_process_list_does_not_affect_the_other_lists(
    fake_gpus: FakeGpus, tmp_path: Path, well: DeviceLook, function: str, kind: str
) -> None:
    looks = older(fake_gpus, tmp_path, function, OTHERWISE[function], FIRST_LISTS[function])
    look = looks.look()
    problems = ("The processes on this GPU cannot be listed: not known to this driver.",)
    changes = {"problems": problems, "unlisted": TOO_OLD} if kind == "C" else {}
    assert look.devices == tuple(device._replace(**changes) for device in well.devices)
    assert look.uses == (() if kind == "C" else well.uses)
    looks.source.close()


@pytest.mark.parametrize("function", MIG)
def test_gpus_are_read_without_the_mig_functions(fake_gpus: FakeGpus, tmp_path: Path, function: str) -> None:
    fake_gpus.up(2, mig=2)
    looks = older(fake_gpus, tmp_path, function)
    look = looks.look()
    assert (look.problem, [device.mig for device in look.devices]) == (None, [None, None])
    is_reported = function != MIG[0]
    assert ("not known to this driver" in " ".join(look.devices[1].problems)) == is_reported
    looks.source.close()


def test_an_error_without_a_message_shows_its_number(fake_gpus: FakeGpus, tmp_path: Path) -> None:
    looks = older(fake_gpus, tmp_path, "nvmlErrorString")
    fake_gpus.fault("nvmlDeviceGetPowerUsage", error=78)
    power = looks.look().devices[0].power_w
    assert power == Absent("NVML error 78")
    looks.source.close()


ADDED = {
    396: (INIT,),
    410: ("nvmlSystemGetCudaDriverVersion_v2",),
    450: (
        *(OTHERWISE[function] for function in LISTS),
        *(name.replace("_v3", "") for name in LISTS if "MPS" in name),
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
    ),
    455: ("nvmlDeviceGetArchitecture",),
    510: (*LISTS, "nvmlDeviceGetMemoryInfo_v2"),
    535: ("nvmlDeviceGetCurrentClocksEventReasons",),
}
"""The functions that each driver was the first to have, of those that the monitor calls."""


@pytest.mark.parametrize("driver", [390, 396, 410, 450, 455])
def test_an_old_driver_shows_its_processes_and_all_that_it_reads(
    fake_gpus: FakeGpus, tmp_path: Path, well: DeviceLook, driver: int
) -> None:
    missing = {function for version, functions in ADDED.items() if version > driver for function in functions}
    looks = older(fake_gpus, tmp_path, *missing)
    look = looks.look()
    assert (look.problem, look.driver, look.uses) == (None, well.driver, well.uses)
    unknown = {field for function in missing - set(OTHERWISE) for field in FIELDS.get(function, ())}
    for device, known in zip(look.devices, well.devices, strict=True):
        memory = device.memory
        assert isinstance(memory, DeviceMemory)
        assert memory.driver_reserved_bytes is None
        assert device == known._replace(memory=memory, **dict.fromkeys(unknown, TOO_OLD))
    looks.source.close()
