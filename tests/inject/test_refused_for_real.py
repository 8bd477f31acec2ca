"""Refusals that need namespaces, jails, limits, tracers or another Python, each brought about for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputui.inject import checks
from gputui.inject.loading import load
from gputui.inject.process.process_facts import YAMA_FILE
from gputui.inject.refusals import Refused
from gputui.sources.probe import listing, loading
from tests.attach.children import REPOSITORY, Python, wait_until
from tests.inject import jails, situations
from tests.inject.test_loading import cycle, ended_undisturbed
from tests.inject.test_refusals import AS_USER, WAITING, refused, rule_for
from tests.other_pythons import other_python

CHILD_OF_CHILD = "/proc/{pid}/task/{pid}/children"
IN_A_NEW_USER_NAMESPACE = """
assert ctypes.CDLL(None).unshare(0x10000000) == 0 == ctypes.CDLL(None).prctl(4, 1)
open("/proc/self/uid_map", "w").write("0 12345 1")
"""


def child_of(pid: int) -> int:
    """The only child of a process with one thread."""
    return int(Path(CHILD_OF_CHILD.format(pid=pid)).read_text())


def refused_when_tried(pid: int) -> Refused:
    """The refusal of a process that passes all checks."""
    target = checks.examine(pid)
    with pytest.raises(Refused) as caught:
        load(target)
    return caught.value


@contextmanager
def strace(pid: int) -> Iterator[int]:
    """The PID of a strace that traces a process."""
    command = ["strace", "-f", "-o", "/dev/null", "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
        wait_until(lambda: f"TracerPid:\t{tracer.pid}" in Path(f"/proc/{pid}/status").read_text(), "strace")
        try:
            yield tracer.pid
        finally:
            tracer.terminate()


def test_a_program_in_strict_mode_is_refused(python: Python) -> None:
    child = python.start(jails.STRICT)
    child.expect("ready")
    wait_until(lambda: "Seccomp:\t1" in Path(f"/proc/{child.pid}/status").read_text(), "strict mode")
    assert refused(child.pid).rule == "seccomp strict"
    assert child.process.poll() is None


@pytest.mark.needs("python3.7")
def test_a_python_that_is_too_old_is_refused(python: Python) -> None:
    child = python.run([other_python("python3.7"), "-c", WAITING])
    child.expect("ready")
    refusal = refused(child.pid)
    assert (refusal.rule, "runs Python 3.7;" in refusal.cause) == ("too old", True)


@pytest.mark.needs("python3.14")
@pytest.mark.parametrize(
    ("options", "variables", "words"),
    [
        ([], {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, "PYTHON_DISABLE_REMOTE_DEBUG is set"),
        (["-X", "disable-remote-debug"], {}, "it was started with -X disable-remote-debug"),
    ],
)
def test_python_3_14_with_remote_debugging_switched_off_is_refused(
    python: Python, options: list[str], variables: dict[str, str], words: str
) -> None:
    child = python.run([other_python("python3.14"), *options, "-c", WAITING], **variables)
    child.expect("ready")
    refusal = refused(child.pid)
    assert refusal.rule == "remote debugging off"
    assert words in refusal.cause


@pytest.mark.needs("strace")
def test_a_tracer_that_comes_after_the_checks_is_named(stopped_python: Python) -> None:
    child = stopped_python.start(situations.source("computing"))
    child.expect("ready")
    target = checks.examine(child.pid)
    with strace(child.pid) as tracer, pytest.raises(Refused) as caught:
        load(target)
    assert (caught.value.rule, f"traced by strace (PID {tracer})" in caught.value.cause) == ("traced", True)
    cycle(child)
    ended_undisturbed(child)


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_a_program_outside_of_gputuis_user_namespace_is_refused(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    for command in (["unshare", "--user", "--map-root-user"], ["unshare", "--user"]):
        assert rule_for(child.pid, *command) == "user namespace"


@pytest.mark.root
def test_a_user_may_touch_a_program_in_a_user_namespace_of_their_own(python: Python) -> None:
    child = python.start(AS_USER.format(dumpable=1) + IN_A_NEW_USER_NAMESPACE + WAITING)
    child.expect("ready")
    assert rule_for(child.pid, first=AS_USER.format(dumpable=1)) == ""


@pytest.mark.root
def test_a_program_of_another_group_is_refused(python: Python) -> None:
    of_another_group = AS_USER.format(dumpable=1).replace("os.setgid(12345)", "os.setgid(54321)")
    child = python.start(of_another_group + WAITING)
    child.expect("ready")
    assert rule_for(child.pid, first=AS_USER.format(dumpable=1)) == "another group"


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_a_program_outside_of_gputuis_pid_namespace_does_not_exist(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    assert rule_for(child.pid, "unshare", "--pid", "--fork", "--mount-proc") == "gone"


@pytest.mark.root
@pytest.mark.needs(YAMA_FILE)
def test_the_rule_of_this_kernels_yama_is_named(python: Python) -> None:
    child = python.start(AS_USER.format(dumpable=1) + WAITING)
    child.expect("ready")
    scope = Path(YAMA_FILE).read_text().strip()
    assert rule_for(child.pid, first=AS_USER.format(dumpable=1)) == ("" if scope == "0" else f"yama {scope}")


IN_A_JAIL = """
import sys
from gputui.inject import checks
from gputui.inject.loading import load
from gputui.inject.refusals import Refused
target = checks.examine({pid})
{jail}
try:
    load(target)
except Refused as refusal:
    print(refusal.rule)
"""


def test_a_jail_of_gputuis_own_that_forbids_ptrace_is_named(stopped_python: Python) -> None:
    child = stopped_python.start(situations.source("computing"))
    child.expect("ready")
    code = IN_A_JAIL.format(pid=child.pid, jail=jails.jail("as a container's"))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert output.stdout == "own jail\n"
    ended_undisturbed(child)


@pytest.mark.root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("jail", ["no executable memory, by an error", "no executable memory, by a signal"])
def test_a_container_without_executable_memory_is_named_and_its_program_runs_on(
    stopped_python: Python, jail: str
) -> None:
    launcher = stopped_python.run([*jails.container(stopped_python.path, jail), "-c", situations.source("computing")])
    launcher.expect("ready")
    pid = child_of(child_of(launcher.pid))
    for _ in range(2):
        assert refused_when_tried(pid).rule == "no executable memory"
    ended_undisturbed(launcher)


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_the_probe_starts_in_a_containers_jail(python: Python) -> None:
    launcher = python.run([*jails.container(python.path, "as a container's"), "-c", situations.source("computing")])
    launcher.expect("ready")
    pid = child_of(child_of(launcher.pid))
    loading.put_probe_in(pid, lambda _sentence: None)
    with listing.attach(pid) as client:
        client.end_probe()
    ended_undisturbed(launcher)


def test_a_program_at_its_limit_of_address_space_is_refused_and_runs_on(stopped_python: Python) -> None:
    limit = """
    import resource
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 4096, mapped + 4096))
    """
    child = stopped_python.start(limit + WAITING.replace("\n", "\n    "))
    child.expect("ready")
    refusal = refused_when_tried(child.pid)
    assert (refusal.rule, refusal.remedies[0]) == ("no room", f"prlimit --pid {child.pid} --as=unlimited")
    child.say("")
    assert (child.ended(), child.errors) == (0, "")


ENDING = {
    "at exit": "atexit.register(ctypes.CDLL(None).pause)",
    "after the interpreter": "ctypes.CDLL(None).__cxa_atexit(ctypes.CDLL(None).pause, None, None)",
}
PAUSED = "34 "
"""The system call of `pause` on x86-64."""


@pytest.mark.needs("python3.8")
@pytest.mark.parametrize(("name", "when"), [("python3.8", "at exit"), ("this", "after the interpreter")])
def test_a_program_that_is_ending_is_refused(python: Python, name: str, when: str) -> None:
    path = python.path if name == "this" else other_python(name)
    code = f"import atexit, ctypes\n{ENDING[when]}\nprint('ready', flush=True)"
    child = python.run([path, "-c", code])
    child.expect("ready")
    wait_until(lambda: Path(f"/proc/{child.pid}/syscall").read_text().startswith(PAUSED), "the end of the program")
    assert refused(child.pid).rule == "not alive"
    assert child.errors == ""
