"""The command line of the fake GPUs, used as in its README."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.hanging import HANGS_S

COMMAND = ROOT / "tests" / "fakegpu" / "fakegpu"
NAMES = "from gputui.sources.nvml import NvmlSource; print([device.name for device in NvmlSource().read().devices])"


def test_a_shell_gets_fake_gpus_from_the_command(tmp_path: Path, fake_nvml_folder: Path) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=HANGS_S
        ).stdout

    environment = {**os.environ, "FAKEGPU_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    script = run(str(COMMAND), "up", "--gpus", "2", "--mig", "1", "--lib", str(fake_nvml_folder))
    exports = [shlex.split(line)[1].split("=", 1) for line in script.splitlines()]
    assert [name for name, _ in exports] == ["FAKEGPU_STATE", "LD_LIBRARY_PATH"]
    environment["LD_LIBRARY_PATH"] = str(fake_nvml_folder)
    run(str(COMMAND), "set", "0", "name=A board")
    assert run("-c", NAMES).strip() == str(["A board", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"])
    assert "nvmlDeviceGetCount_v2" in run(str(COMMAND), "calls")
