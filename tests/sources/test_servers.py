"""Processes of an inference server stand under the one that started them, if there are several on the devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.sources.processes.family import Family
from gputui.sources.processes.ranks import Servers
from gputui.sources.procfs import ProcFs
from tests.sources.false_proc import FalseProc

COMMANDS = {
    10: (1, b"vllm\0serve\0"),
    20: (10, b"VLLM::EngineCore_DP0\0"),
    21: (20, b"VLLM::Worker_TP0\0"),
    22: (20, b"VLLM::Worker_TP1\0"),
    30: (10, b"VLLM::EngineCore_DP1\0"),
    40: (1, b"VLLM::EngineCore\0"),
    50: (1, b"python\0train.py\0"),
}

CASES = {
    "two workers": ([21, 22], {21: 10, 22: 10}),
    "two engine cores": ([21, 30, 50], {21: 10, 30: 10}),
    "one process": ([21, 40, 50], {}),
}


@pytest.mark.parametrize(("on_devices", "fronts"), CASES.values(), ids=CASES)
def test_the_front_of_a_server_is_found(tmp_path: Path, on_devices: list[int], fronts: dict[int, int]):
    proc = FalseProc(tmp_path / "proc")
    for pid, (parent, command) in COMMANDS.items():
        proc.add(pid, parent=parent, command=command, is_bare=True)
    files = ProcFs(proc.root)
    family = Family(files)
    family.refresh()
    commands = {pid: COMMANDS[pid][1].decode().rstrip("\0") for pid in on_devices}
    assert Servers(files, family).of(commands) == fronts
