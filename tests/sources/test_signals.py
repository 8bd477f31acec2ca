"""Signals reach the intended process, or are refused with a reason."""

import os
import signal
import subprocess
import sys

import pytest

from gputui.model.machine.process import Identity
from gputui.model.machine.signals import SIGNALS
from gputui.sources.procfs import ProcFs
from gputui.sources.signals import SignalRefused, send_signal
from tests.hanging import wait_until
from tests.sources.children import IDLE, ROOT, ZOMBIE, as_nobody, in_namespace, running


def identity_of(pid: int) -> Identity:
    return Identity(pid, ProcFs().stat(pid).started)


def refusal(identity: Identity, number: int = signal.SIGTERM) -> str:
    with pytest.raises(SignalRefused) as refused:
        send_signal(identity, number)
    return str(refused.value)


def test_a_signal_reaches_its_process():
    child = subprocess.Popen(["sleep", "600"])
    send_signal(identity_of(child.pid), signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM


def not_implemented(_pid, _flags=0):
    raise OSError(38, "Function not implemented")


@pytest.mark.parametrize("call", [not_implemented, None], ids=["an old kernel", "a Python built for one"])
def test_without_pidfd_support_kill_sends_the_signal(monkeypatch, call):
    child = subprocess.Popen(["sleep", "600"])
    identity = identity_of(child.pid)
    if call:
        monkeypatch.setattr(os, "pidfd_open", call)
    else:
        monkeypatch.delattr(os, "pidfd_open")
    assert refusal(Identity(child.pid, 1.0)) == f"PID {child.pid} is another process now."
    send_signal(identity, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert refusal(identity) == f"PID {child.pid} has ended."


@pytest.mark.root
def test_a_signal_to_another_users_process_is_refused_with_the_owner():
    with running(IDLE) as child:
        identity = identity_of(child.pid)
        assert as_nobody(lambda: refusal(identity)) == f"PID {child.pid} is owned by root: not permitted."
        assert ProcFs().stat(child.pid).letter in "SR"


def test_a_signal_to_an_ended_process_is_refused():
    with running(IDLE) as child:
        identity = identity_of(child.pid)
    assert refusal(identity) == f"PID {child.pid} has ended."


def test_a_signal_to_a_zombie_is_refused_and_names_its_parent():
    with running(ZOMBIE) as parent:
        pid = int(parent.words[0])
        wait_until(lambda: ProcFs().stat(pid).letter == "Z")
        sentence = refusal(identity_of(pid))
    assert sentence == f"PID {pid} has ended: a zombie until its parent, PID {parent.pid}, collects it."


def test_a_signal_to_a_reused_pid_is_refused():
    with running(IDLE) as child:
        started = ProcFs().stat(child.pid).started
        assert refusal(Identity(child.pid, started - 1), signal.SIGKILL) == f"PID {child.pid} is another process now."
        assert ProcFs().stat(child.pid).letter in "SR"


@pytest.mark.parametrize("identity", [Identity(os.getpid(), None), Identity(0, 1.0), Identity(-1, 1.0)])
def test_a_signal_without_a_certain_target_is_refused(identity):
    assert "cannot be identified" in refusal(identity)


@pytest.mark.root
def test_a_signal_to_a_hidden_process_is_refused_as_hidden():
    script = """
import os, subprocess
from gputui.model.machine.process import Identity
from gputui.sources.signals import SignalRefused, send_signal

subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    send_signal(Identity(1, 1.0), 15)
except SignalRefused as refused:
    print(refused)
"""
    assert in_namespace("--mount", script=script) == "PID 1 is hidden from this user: not permitted.\n"


def test_signals_are_listed_from_gentle_to_final():
    names = [entry.name for entry in SIGNALS]
    assert names[:2] == ["SIGINT", "SIGTERM"]
    assert names[-1] == "SIGKILL"
    assert all(signal.Signals(entry.number).name == entry.name and entry.meaning for entry in SIGNALS)


def test_processes_and_signals_import_no_library():
    code = (
        "import sys, gputui.sources.processes, gputui.sources.signals, gputui.sources.host, gputui.sources.demo; "
        "print({'psutil', 'textual', 'pynvml', 'torch'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
