"""A program with the probe that puts itself into a jail of seccomp, which kills it for what a look does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.sources.probe import listing
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import LIMIT_S, Python, wait_until, words_of_gputui
from tests.inject.jails import jail

PROGRAM = """
import gputui.probe, os, sys, torch
held = torch.ones(64, device="cuda" if torch.cuda.is_available() else "cpu")
print("ready", flush=True)
sys.stdin.readline()
{jail}
os.write(1, b"jailed\\n")
while not os.path.exists("done"):
    sum(range(1000))
os.write(1, b"end\\n")
os._exit(3)
"""
STRICT = """
import gputui.probe, ctypes, os, sys
prctl = ctypes.CDLL(None).prctl
print("ready", flush=True)
sys.stdin.readline()
assert prctl(22, 1, 0) == 0
os.write(1, b"jailed\\n")
while os.read(0, 1) != b"!":
    pass
os.write(1, b"end\\n")
"""


@pytest.mark.parametrize("when", ["attached before", "attached after"])
def test_a_main_thread_in_a_jail_is_asked_for_nothing(torch_python: Python, when: str) -> None:
    child = torch_python.fork(PROGRAM.format(jail=jail("no handlers of signals, by death")))
    child.expect("ready")
    client = child.attach() if when == "attached before" else None
    child.say("go")
    child.expect("jailed")
    with client or child.attach() as client:
        look = client.look(wait_s=LIMIT_S)
    assert [problem.text for problem in look.problems if "seccomp" in problem.text]
    (torch_python.folder / "done").touch()
    child.expect("end")
    assert (child.ended(), words_of_gputui(child.errors)) == (3, [])


POLLS = {"7", "73", "271"}
"""The numbers of `poll` and `ppoll` on x86-64 and aarch64."""


def rests(pid: int) -> bool:
    """Whether the probe's thread has started and waits for viewers: in strict mode, waiting for it is death."""
    others = [task for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(pid)]
    return bool(others) and all((task / "syscall").read_text().split()[0] in POLLS for task in others)


def test_a_program_in_strict_mode_is_not_connected_to(python: Python) -> None:
    child = python.start(STRICT)
    child.expect("ready")
    wait_until(lambda: rests(child.pid), "the start of the probe's thread")
    child.say("go")
    child.expect("jailed")
    with pytest.raises(CannotAttachError, match="strict mode"):
        child.attach()
    (listed,) = listing.list_probes(lambda pid: pid == child.pid)
    assert "strict mode" in listed.problem
    child.say("!")
    child.expect("end")
