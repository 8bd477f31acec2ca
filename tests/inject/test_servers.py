"""Any process of a server leads to those that hold its model: by the titles that vLLM's processes give themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from gputui.inject.process.process_facts import engines_of

PROCESS = """
import os, subprocess, sys

program, *below = sys.argv[1:]
print(os.getpid(), flush=True)
for title in below:
    words = title.split()
    home = {**os.environ, "PYTHONHOME": sys.base_prefix}  # it has lost its own name
    subprocess.Popen([words[0], "-S", "-c", program, program, *words[1:]], executable="/proc/self/exe", env=home)
sys.stdin.read()
"""
"""Starts processes with these titles; what follows a title are those of the processes that it starts itself."""


@pytest.fixture
def server() -> Iterator[list[int]]:
    """The process in front, the engine core and its two workers, by PID."""
    core = "VLLM::EngineCore VLLM::Worker_TP0 VLLM::Worker_TP1"
    front = subprocess.Popen(
        [sys.executable, "-S", "-c", PROCESS, PROCESS, core], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert front.stdout is not None
    try:
        yield [int(front.stdout.readline()) for _ in range(4)]
    finally:
        front.communicate()


@pytest.mark.parametrize("named", range(4), ids=["front", "engine core", "a worker", "another worker"])
def test_any_process_of_a_server_leads_to_its_engines(server: list[int], named: int):
    assert set(engines_of(server[named])) == set(server[1:])


def test_an_engine_without_its_front_is_found(server: list[int]):
    """What started it has ended: its parent is another program, whose other children are not the server's."""
    front, core, *workers = server
    subprocess.run(["kill", "-9", str(front)], check=True)
    assert set(engines_of(workers[0])) == {core, *workers}
