"""NVML fails as a whole: one sentence with cause and remedy, and automatic recovery after the repair."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.sources.nvml.library import versions
from gputui.sources.procfs import ProcFs
from tests.conftest import ROOT, FakeGpus
from tests.hanging import HANGS_S
from tests.sources.conftest import Looks

UNINITIALIZED, NO_PERMISSION, DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, MISMATCH, UNKNOWN = 1, 4, 9, 13, 18, 999

AT_START = [
    (DRIVER_NOT_LOADED, ("kernel driver is not loaded", "modprobe nvidia")),
    (MISMATCH, ("different versions", "driver upgrade", "Reboot")),
    (NO_PERMISSION, ("No permission", "/dev/nvidiactl")),
    (FUNCTION_NOT_FOUND, ("too old", "Upgrade the driver")),
    (UNKNOWN, ("unknown error", "container", "restart it")),
    (14, ("corrupted infoROM", "dmesg")),
]
READ = "from gputui.sources.nvml import NvmlSource; look = NvmlSource().read(); print(look.problem, len(look.devices))"


def in_child(code: str, environment: dict[str, str], folder: Path = ROOT) -> str:
    """The output of `code` in a new process with `folder` first on its path."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert result.stderr == ""
    return result.stdout.strip()


@pytest.mark.parametrize(("error", "words"), AT_START, ids=[str(error) for error, _ in AT_START])
def test_an_nvml_start_failure_has_a_cause_and_a_remedy(
    fake_gpus: FakeGpus, looks: Looks, error: int, words: tuple[str, ...]
) -> None:
    fake_gpus.fault("nvmlInit*", error=error)
    look = looks.look()
    assert look.devices == ()
    assert look.problem is not None
    assert all(word in look.problem for word in words)


def test_a_version_mismatch_shows_both_versions(tmp_path: Path) -> None:
    maps, kernel_driver = tmp_path / str(os.getpid()) / "maps", tmp_path / "driver" / "nvidia" / "version"
    for file in (maps, kernel_driver):
        file.parent.mkdir(parents=True)
    library = "7f31c7a00000-7f31c7a1e000 r--p 00000000 08:01 1320981    /usr/lib/libnvidia-ml.so.580.95.05 (deleted)\n"
    maps.write_text(library)
    kernel_driver.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 23:38:43 UTC 2025\n"
    )
    proc = ProcFs(tmp_path)
    assert versions(proc) == "Kernel driver 570.86.15, library 580.95.05."
    kernel_driver.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n")
    assert versions(proc) == "Kernel driver 580.95.05, library 580.95.05."
    maps.write_text("")
    assert versions(proc) == ""
    maps.write_text(library)
    kernel_driver.unlink()
    assert versions(proc) == ""


def test_after_a_problem_nvml_is_retried_every_three_seconds(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlInit*", error=DRIVER_NOT_LOADED)
    for _ in range(9):
        looks.look()
    assert fake_gpus.calls() == {"nvmlInitWithFlags": 3}


def test_every_nvml_init_has_a_shutdown(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    fake_gpus.fault("nvmlDevice*", error=UNINITIALIZED)
    looks.look()
    fake_gpus.clear("faults")
    looks.look(after_s=3)
    looks.source.close()
    calls = fake_gpus.calls()
    assert (calls["nvmlInitWithFlags"], calls["nvmlShutdown"]) == (2, 2)


def test_unsupported_calls_are_repeated_after_a_new_start(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetPowerUsage", error=3)
    looks.look()
    fake_gpus.fault("nvmlDeviceGetCount*", error=DRIVER_NOT_LOADED)
    assert looks.look(after_s=5).problem
    fake_gpus.clear("faults")
    assert looks.look(after_s=3).devices[0].power_w == 72.0


def test_a_missing_driver_library_is_a_problem_with_a_remedy() -> None:
    bare = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    printed = in_child(READ, bare)
    assert printed.startswith("NVIDIA's driver library libnvidia-ml.so.1 was not found. Install the NVIDIA driver")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "class NVMLError(Exception): pass\nnvmlLib = None\n",
            "does not belong to nvidia-ml-py 12.535.108 or newer",
        ),
        ("print 'for Python 2'\n", "cannot be imported"),
        ("import a_module_that_is_not_there\n", "cannot be imported"),
    ],
    ids=["another package", "for Python 2", "broken"],
)
def test_a_wrong_pynvml_package_is_a_problem_with_a_remedy(
    fake_gpus: FakeGpus, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "pynvml.py").write_text(text)
    printed = in_child(READ, fake_gpus.environment, tmp_path)
    assert words in printed
    assert "pip uninstall pynvml nvidia-ml-py3" in printed


def test_a_missing_nvidia_ml_py_is_a_problem_with_a_remedy(fake_gpus: FakeGpus) -> None:
    printed = in_child(f"import sys; sys.modules['pynvml'] = None; {READ}", fake_gpus.environment)
    assert printed == "The Python package nvidia-ml-py is not installed. Run `pip install nvidia-ml-py`. 0"


def test_the_source_imports_nvidia_ml_py_only_when_it_reads(fake_gpus: FakeGpus) -> None:
    code = "import sys; from gputui.sources.nvml import NvmlSource; NvmlSource(); print('pynvml' in sys.modules)"
    assert in_child(code, fake_gpus.environment) == "False"


UPGRADE = """
import os, sys
from pathlib import Path
from gputui.sources.nvml import NvmlSource
from tests.fakegpu.lab import Lab
from tests.hanging import HANGS_S

library, new = map(Path, sys.argv[1:])
time = 0.0
source, lab = NvmlSource(clock=lambda: time), Lab(os.environ["FAKEGPU_STATE"])
assert len(source.read().devices) == 2
lab.fault("nvmlDevice*", error=18)
time += 5
assert source.read().problem
lab.clear("faults")
library.unlink()
library.symlink_to(new)
time += 5
assert len(source.read().devices) == 2
maps = Path("/proc/self/maps").read_text()
print(str(new) in maps, sys.modules["pynvml"].nvmlLib._name == str(new))
"""


def test_after_a_driver_upgrade_the_new_library_is_used(fake_gpus: FakeGpus, tmp_path: Path) -> None:
    built = fake_gpus.library_folder / "libnvidia-ml.so.1"
    old, new, link = (tmp_path / f"libnvidia-ml.so.{version}" for version in ("570.1", "580.2", "1"))
    for path in (old, new):
        path.write_bytes(built.read_bytes())
    link.symlink_to(old)
    environment = {**fake_gpus.environment, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", UPGRADE, str(link), str(new)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert (result.stdout.strip(), result.stderr) == ("True True", "")
