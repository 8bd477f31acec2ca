"""Why the probe is not put into a process: a table of rules in their order, each with its cause and remedies.

A remedy is a command to copy, or a sentence where there is no command. `{pid}` and the other names in braces are filled
in from the facts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from gputui.inject.process.process_facts import CAP_SYS_PTRACE, YAMA_FILE, Facts

START_WITH_PROBE = "Start it with the probe next time: gputui run python train.py"
AS_ROOT = "sudo gputui attach {pid}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """`applies` says whether the remedy helps here."""

    text: str
    applies: Callable[[Facts], bool] = lambda _facts: True


@dataclass(frozen=True, slots=True)
class Rule:
    """`file` is the file in which the system says so, "" if no file does."""

    name: str
    applies: Callable[[Facts], bool]
    cause: str
    remedies: tuple[Remedy, ...] = ()
    file: str = ""


class Refused(Exception):  # noqa: N818 - a refusal is not an error of the program
    """The probe is not put into a process. `remedies` are those that apply here, the best first."""

    def __init__(self, rule: str, cause: str, remedies: tuple[str, ...] = (), file: str = "") -> None:
        super().__init__(cause)
        self.rule = rule
        self.cause = cause
        self.remedies = remedies
        self.file = file


def _is_root(facts: Facts) -> bool:
    return facts.caller.uid == 0


def _may_become_root(facts: Facts) -> bool:
    return not _is_root(facts)


def _has_ptrace_capability(facts: Facts) -> bool:
    return bool(facts.caller.capabilities & CAP_SYS_PTRACE) and facts.is_in_this_user_namespace


_WITH_CAPABILITY = (
    Remedy(AS_ROOT, _may_become_root),
    Remedy("docker run --cap-add=SYS_PTRACE ...   (for the container in which gputui runs)", _is_root),
    Remedy(
        "kubectl debug POD --profile=general --target=CONTAINER -it --image=IMAGE   (in Kubernetes)",
        _is_root,
    ),
    Remedy(START_WITH_PROBE),
)

_TRACED = Rule(
    "traced",
    lambda facts: facts.tracer != 0,
    "Process {pid} is traced by {tracer_name} (PID {tracer}), and a process can have one tracer only.",
    (Remedy("kill {tracer}   (ends {tracer_name}, or let it detach)"),),
    "/proc/{pid}/status (TracerPid)",
)

BEFORE = (
    Rule(
        "ended",
        lambda facts: facts.state in "ZX",
        "Process {pid} has ended: only its exit status is left.",
    ),
    Rule(
        "stopped",
        lambda facts: facts.state == "T",
        "Process {pid} is stopped (Ctrl-Z, or SIGSTOP), so it cannot load anything.",
        (Remedy("kill -CONT {pid}"),),
        "/proc/{pid}/status (State)",
    ),
    Rule(
        "switched off",
        lambda facts: facts.environment.get("GPUTUI_PROBE") == "0",
        "Process {pid} was started with GPUTUI_PROBE=0, which keeps the probe out of it.",
        (Remedy("Start it without that variable: env -u GPUTUI_PROBE gputui run python train.py"),),
        "/proc/{pid}/environ (GPUTUI_PROBE)",
    ),
    Rule(
        "seccomp strict",
        lambda facts: facts.seccomp_mode == 1,
        "Process {pid} runs in seccomp's strict mode, which would kill it for loading anything.",
        (),
        "/proc/{pid}/status (Seccomp)",
    ),
    Rule(
        "seccomp filter",
        lambda facts: facts.has_own_filters,
        "Process {pid} is in a jail of its own (seccomp), which may kill it for a system call that the probe makes.",
        (Remedy(START_WITH_PROBE),),
        "/proc/{pid}/status (Seccomp_filters)",
    ),
    Rule(
        "unknown user",
        lambda facts: facts.is_in_this_user_namespace and not facts.knows_caller,
        "Process {pid} is in a rootless container, in which the user of gputui does not exist.",
        (Remedy("sudo -u '#{uid}' gputui attach {pid}"),),
        "/proc/{pid}/uid_map",
    ),
    Rule(
        "shadow stack",
        lambda facts: facts.has_shadow_stack,
        "Process {pid} runs with a shadow stack, which ends a program whose code is entered from outside.",
        (Remedy(START_WITH_PROBE),),
        "/proc/{pid}/status (x86_Thread_features)",
    ),
)
"""Rules on what /proc tells of any process, whether or not gputui may read its memory."""

WITHOUT_ACCESS = (
    Rule(
        "another user",
        lambda facts: facts.uid != facts.caller.uid and not _is_root(facts),
        "Process {pid} belongs to another user (UID {uid}).",
        (Remedy(AS_ROOT), Remedy("sudo -u '#{uid}' gputui attach {pid}")),
        "/proc/{pid}/status (Uid)",
    ),
    Rule(
        "user namespace",
        lambda facts: not facts.is_in_this_user_namespace,
        "Process {pid} is in another user namespace, as in a rootless container, and not in one below that of gputui.",
        (
            Remedy("Run gputui outside of containers, as root or as the user who started the container of {pid}."),
            Remedy(AS_ROOT, _may_become_root),
            Remedy(START_WITH_PROBE),
        ),
        "/proc/{pid}/ns/user",
    ),
    Rule(
        "another group",
        lambda facts: (
            facts.uid == facts.caller.uid and facts.gids != {facts.caller.gid} and not _has_ptrace_capability(facts)
        ),
        "Process {pid} runs with another group (GID {gid}) than gputui, and a debugger must have the same.",
        (Remedy(AS_ROOT, _may_become_root), Remedy("newgrp GROUP   (that of GID {gid}), then: gputui attach {pid}")),
        "/proc/{pid}/status (Gid)",
    ),
    Rule(
        "protected",
        lambda facts: not facts.is_dumpable and not _has_ptrace_capability(facts),
        "Process {pid} is protected from debuggers: it switched them off (PR_SET_DUMPABLE), or its program file is "
        "setuid or has capabilities.",
        (Remedy(AS_ROOT, _may_become_root), *_WITH_CAPABILITY[1:]),
        "/proc/{pid}/maps (owned by root)",
    ),
    Rule(
        "yama 3",
        lambda facts: facts.yama_scope == 3,
        "This kernel lets nobody attach to a running process until the next boot (Yama, scope 3).",
        (Remedy(START_WITH_PROBE),),
        YAMA_FILE,
    ),
    Rule(
        "yama 2",
        lambda facts: facts.yama_scope == 2 and not _has_ptrace_capability(facts),
        "On this machine only root attaches to a running process (Yama, scope 2).",
        _WITH_CAPABILITY,
        YAMA_FILE,
    ),
    Rule(
        "yama 1",
        lambda facts: facts.yama_scope == 1 and not _has_ptrace_capability(facts),
        "On this machine a process attaches to its own children only (Yama, scope 1).",
        (
            Remedy(AS_ROOT, _may_become_root),
            Remedy("sudo sysctl kernel.yama.ptrace_scope=0   (for all processes, until the next boot)"),
            *_WITH_CAPABILITY[1:],
        ),
        YAMA_FILE,
    ),
    Rule(
        "capability",
        lambda facts: (
            not _has_ptrace_capability(facts)
            and (facts.uid != facts.caller.uid or facts.capabilities & ~facts.caller.capabilities != 0)
        ),
        "Process {pid} has capabilities that gputui has not, and gputui lacks CAP_SYS_PTRACE.",
        _WITH_CAPABILITY,
        "/proc/{pid}/status (CapPrm), /proc/self/status (CapEff)",
    ),
    Rule(
        "security module",
        lambda _facts: True,
        "The system does not let gputui attach to process {pid}: a security module (AppArmor, SELinux) or the "
        "container's rules forbid it.",
        (Remedy(AS_ROOT, _may_become_root), Remedy(START_WITH_PROBE)),
        "/proc/{pid}/attr/current",
    ),
)
"""Why the memory of a process may not be opened. The last one always applies."""

BEFORE_A_STOP = (_TRACED,)
"""Rules for the ways that stop the main thread; Python's own protocol needs no stop."""

_NOT_SEIZED = (
    _TRACED,
    Rule(
        "own jail",
        lambda facts: facts.caller.has_filters,
        "The jail (seccomp) of the container or service in which gputui runs forbids debugging (ptrace).",
        (
            Remedy("docker run --cap-add=SYS_PTRACE ...   (for the container in which gputui runs)"),
            Remedy("Run gputui outside that container."),
            Remedy(START_WITH_PROBE),
        ),
        "/proc/self/status (Seccomp)",
    ),
    Rule(
        "traced a moment ago",
        lambda _facts: True,
        "Another program was tracing process {pid} at that moment, and a process can have one tracer only.",
        (Remedy("gputui attach {pid}   (once more)"),),
        "/proc/{pid}/status (TracerPid)",
    ),
)
_NOT_MAPPED = (
    Rule(
        "no executable memory",
        lambda _facts: True,
        "The system forbids process {pid} to map memory for code: its container's seccomp filter, or SELinux, does.",
        (Remedy(START_WITH_PROBE),),
        "/proc/{pid}/status (Seccomp), /proc/{pid}/attr/current",
    ),
)
_NO_ROOM = (
    Rule(
        "no room",
        lambda _facts: True,
        "Process {pid} has reached its limit of address space (ulimit -v), and has no room for the probe.",
        (Remedy("prlimit --pid {pid} --as=unlimited"), Remedy(START_WITH_PROBE)),
        "/proc/{pid}/limits (Max address space)",
    ),
)
AT_STEP = {
    ("seized", errno.EPERM): _NOT_SEIZED,
    ("mapped", errno.EPERM): _NOT_MAPPED,
    ("mapped", errno.EACCES): _NOT_MAPPED,
    ("mapped", errno.ENOMEM): _NO_ROOM,
}
"""Why a step of the pending call failed, by the step and its error. The last rule of each always applies."""


def refusal(rules: tuple[Rule, ...], facts: Facts) -> Refused | None:
    """The first rule that applies, as the exception to raise."""
    for rule in rules:
        if rule.applies(facts):
            return refused(rule, facts)
    return None


def refused(rule: Rule, facts: Facts) -> Refused:
    """A rule filled in for a process."""
    names = {"pid": facts.pid, "uid": facts.uid, "tracer": facts.tracer, "tracer_name": facts.tracer_name}
    names["gid"] = next(iter(facts.gids - {facts.caller.gid}), facts.caller.gid)
    remedies = tuple(remedy.text.format(**names) for remedy in rule.remedies if remedy.applies(facts))
    return Refused(rule.name, rule.cause.format(**names), remedies, rule.file.format(**names))
