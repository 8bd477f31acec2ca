"""Every reason for which the probe is not put into a process, brought about for real where this machine allows it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gputui.inject import checks, refusals
from gputui.inject.process import process_facts
from gputui.inject.process.process_facts import Caller, Facts, ranks_of, workers_of
from gputui.inject.refusals import Refused
from gputui.sources.probe.loading import CannotLoadError, check
from tests.attach.children import REPOSITORY, Python, as_another_user, wait_until
from tests.inject import jails

WAITING = "print('ready', flush=True)\ninput()"


def refused(pid: int) -> Refused:
    with pytest.raises(Refused) as caught:
        checks.examine(pid)
    return caught.value


def test_a_process_that_does_not_exist_is_refused() -> None:
    assert refused(4_194_303).rule == "gone"


def test_a_zombie_is_refused(python: Python) -> None:
    child = python.start("print('ready')")
    child.expect("ready")
    wait_until(lambda: "State:\tZ" in Path(f"/proc/{child.pid}/status").read_text(), "the end")
    assert refused(child.pid).rule == "ended"


def test_a_stopped_process_is_refused_with_the_command_that_continues_it(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    os.kill(child.pid, signal.SIGSTOP)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{child.pid}/status").read_text(), "the stop")
    refusal = refused(child.pid)
    assert (refusal.rule, refusal.remedies) == ("stopped", (f"kill -CONT {child.pid}",))
    assert refusal.file == f"/proc/{child.pid}/status (State)"


def test_a_traced_process_is_refused_with_the_name_of_its_tracer(stopped_python: Python) -> None:
    child = stopped_python.start(WAITING)
    child.expect("ready")
    code = f"from gputui.inject.ways import ptrace; ptrace.Thread({child.pid}); print(flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    tracer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert tracer.stdout is not None
        tracer.stdout.readline()
        refusal = refused(child.pid)
    finally:
        tracer.communicate(b"\n")
    assert refusal.rule == "traced"
    assert f"(PID {tracer.pid})" in refusal.cause


def test_a_program_started_with_the_probe_switched_off_is_refused(python: Python) -> None:
    child = python.start(WAITING, GPUTUI_PROBE="0")
    child.expect("ready")
    assert refused(child.pid).rule == "switched off"


def test_a_process_that_is_not_python_is_refused() -> None:
    with subprocess.Popen(["sleep", "60"], env={}) as process:
        try:
            wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "exec")
            refusal = refused(process.pid)
        finally:
            process.kill()
    assert refusal.rule == "not Python"
    assert refusal.remedies[0].startswith("pgrep -a -P ")
    assert "(sleep)" in refusal.cause


def test_a_program_in_a_jail_of_its_own_is_refused(python: Python) -> None:
    child = python.start(jails.jail("allows everything") + WAITING)
    child.expect("ready")
    refusal = refused(child.pid)
    assert refusal.rule == "seccomp filter"
    assert "Seccomp_filters" in refusal.file
    child.say("")
    assert child.ended() == 0


def test_a_launcher_is_refused_with_the_command_for_its_workers(torch_python: Python) -> None:
    launcher = torch_python.start(
        """
        import subprocess, sys
        worker = "import torch; print('ready', flush=True); input()"
        subprocess.run([sys.executable, "-c", worker])
        """
    )
    launcher.expect("ready")
    refusal = refused(launcher.pid)
    assert (refusal.rule, refusal.remedies) == ("launcher", (f"gputui attach --job {launcher.pid}",))


def test_a_launcher_with_pytorch_is_refused_while_its_ranks_run(torch_python: Python) -> None:
    """As torchrun: it imports PyTorch, and trains nothing."""
    launcher = torch_python.fork(
        """
        import os, subprocess, sys, torch
        worker = "import torch; print('ready', flush=True); input()"
        subprocess.run([sys.executable, "-c", worker], env={**os.environ, "LOCAL_RANK": "0"})
        """
    )
    launcher.expect("ready")
    refusal = refused(launcher.pid)
    assert (refusal.rule, refusal.remedies) == ("launcher", (f"gputui attach --job {launcher.pid}",))
    (rank,) = ranks_of(launcher.pid)
    assert ranks_of(rank) == []


STARTED_FROM_A_RANK = """
import os, subprocess, sys, torch
gpu, number, is_on_gpu = sys.argv[1:]
use_gpu = f"import mmap, os; gpu = mmap.mmap(os.open({gpu!r}, os.O_RDONLY), 0, prot=mmap.PROT_READ)"
exec(use_gpu)
os.environ["LOCAL_RANK"] = "0"
other = f"import torch; {use_gpu if is_on_gpu else 'pass'}; print('ready', flush=True); input()"
subprocess.run([sys.executable, "-c", other], env={**os.environ, "LOCAL_RANK": number})
"""


@pytest.mark.parametrize(
    ("number", "is_other_on_gpu", "ranks"),
    [
        pytest.param("1", "", 2, id="the first rank has started the second, as under Lightning"),
        pytest.param("0", "", 1, id="a data loader's worker has the number of its rank"),
        pytest.param("0", "yes", 0, id="a launcher that has counted the GPUs"),
    ],
)
def test_a_rank_that_has_started_processes_is_told_from_a_launcher(
    torch_python: Python, monkeypatch: pytest.MonkeyPatch, number: str, is_other_on_gpu: str, ranks: int
) -> None:
    gpu = torch_python.folder / "nvidia0"
    gpu.write_bytes(b"registers")
    monkeypatch.setattr(process_facts, "_GPUS", (str(gpu),))
    child = torch_python.fork(STARTED_FROM_A_RANK, str(gpu), number, is_other_on_gpu)
    child.expect("ready")
    workers = workers_of(child.pid)
    if ranks == 0:
        assert refused(child.pid).rule == "launcher"
        assert ranks_of(child.pid) == workers != [child.pid]
    else:
        assert checks.examine(child.pid).facts.pid == child.pid
        assert ranks_of(child.pid) == []
        assert (workers[0], len(workers)) == (child.pid, ranks)


@pytest.mark.root
def test_another_users_program_is_refused_with_the_command_for_root(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    with as_another_user():
        refusal = refused(child.pid)
    assert refusal.rule == "another user"
    assert refusal.remedies[0] == f"sudo gputui attach {child.pid}"


AS_USER = "import ctypes, os; os.setgid(12345); os.setuid(12345); ctypes.CDLL(None).prctl(4, {dumpable})\n"
"""Makes a program that of a user who does not exist, which can be debugged (PR_SET_DUMPABLE) or not."""


def rule_for(pid: int, *command: str, first: str = "") -> str:
    """The rule that refuses `pid` to another process, "" if none does; `first` is run there after the imports."""
    code = f"""
from gputui.inject import checks
from gputui.inject.refusals import Refused
{first}
try:
    checks.examine({pid})
except Refused as refusal:
    print(refusal.rule)
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*command, sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WITHOUT_CAPABILITY = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")


@pytest.mark.root
def test_root_without_the_capability_of_debuggers_is_refused(python: Python) -> None:
    child = python.start(AS_USER.format(dumpable=1) + WAITING)
    child.expect("ready")
    assert rule_for(child.pid) == ""
    assert rule_for(child.pid, *WITHOUT_CAPABILITY) == "capability"


@pytest.mark.root
def test_a_protected_program_is_refused_to_its_own_user(python: Python) -> None:
    for dumpable, rule in ((1, ""), (0, "protected")):
        child = python.start(AS_USER.format(dumpable=dumpable) + WAITING)
        child.expect("ready")
        assert rule_for(child.pid, first=AS_USER.format(dumpable=1)) == rule


@pytest.mark.root
def test_root_of_the_machine_may_touch_a_program_in_other_namespaces(python: Python) -> None:
    launcher = python.run(["unshare", "--user", "--map-root-user", "--pid", "--fork", python.path, "-c", WAITING])
    launcher.expect("ready")
    (inner,) = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    target = checks.examine(int(inner))
    assert (target.facts.inner_pid, target.facts.is_elsewhere) == (1, True)
    assert rule_for(int(inner), first=AS_USER.format(dumpable=1)) == "another user"


HERE = Caller(uid=1000, gid=1000, capabilities=0, user_namespace="user:[1]")


def facts(**changes: object) -> Facts:
    """A process of the same user that nothing forbids to touch."""
    usual = Facts(
        pid=7,
        caller=HERE,
        name="python",
        command="",
        executable="",
        state="S",
        uid=1000,
        gids=frozenset({1000}),
        gid=1000,
        other_groups=(),
        inner_pid=7,
        tracer=0,
        tracer_name="",
        capabilities=0,
        caught_signals=0,
        seccomp_mode=0,
        has_own_filters=False,
        has_shadow_stack=False,
        is_dumpable=True,
        is_in_this_user_namespace=True,
        knows_caller=True,
        is_elsewhere=False,
        environment={},
        mapped=[],
        yama_scope=0,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


ROOT = Caller(uid=0, gid=0, capabilities=0, user_namespace="user:[1]")
OF_ROOT = {"uid": 0, "gids": frozenset({0})}


@pytest.mark.parametrize(
    ("changes", "rule", "remedy"),
    [
        ({"yama_scope": 1}, "yama 1", "sudo gputui attach 7"),
        ({"yama_scope": 2}, "yama 2", "sudo gputui attach 7"),
        ({"yama_scope": 3}, "yama 3", "Start it with the probe next time"),
        (
            {"yama_scope": 1, "caller": ROOT, "uid": 0, "gids": frozenset({0})},
            "yama 1",
            "sudo sysctl kernel.yama.ptrace_scope=0",
        ),
        ({"is_in_this_user_namespace": False}, "user namespace", "Run gputui outside of containers"),
        ({"gids": frozenset({1000, 7})}, "another group", "sudo gputui attach 7"),
        ({"is_dumpable": False}, "protected", "sudo gputui attach 7"),
        ({"capabilities": 1}, "capability", "sudo gputui attach 7"),
        ({}, "security module", "sudo gputui attach 7"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rule_that_forbids_to_touch_a_process_is_named(changes: dict[str, object], rule: str, remedy: str) -> None:
    """This kernel may have no Yama, so what /proc says is given here."""
    refusal = refusals.refusal(refusals.WITHOUT_ACCESS, facts(**changes))
    assert refusal is not None
    assert refusal.rule == rule
    assert refusal.remedies[0].startswith(remedy)


ALL_RULES = [
    *refusals.BEFORE,
    *refusals.BEFORE_A_STOP,
    *refusals.WITHOUT_ACCESS,
    *(rule for rules in refusals.AT_STEP.values() for rule in rules),
]


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_each_rule_has_a_sentence_without_gaps(rule: refusals.Rule) -> None:
    refusal = refusals.refused(rule, facts(tracer=9, tracer_name="gdb"))
    assert refusal.cause.endswith(".")
    assert "{" not in refusal.cause + refusal.file + "".join(refusal.remedies)


def test_a_refusal_becomes_an_error_with_the_file_and_all_remedies() -> None:
    with pytest.raises(CannotLoadError, match="There is no process 4194303 here") as caught:
        check(4_194_303)
    assert "gputui attach" in caught.value.remedy
