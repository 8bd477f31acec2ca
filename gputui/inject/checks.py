"""All that is known before a process is touched: what it is, and whether the probe can be put into it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from gputui.inject import refusals
from gputui.inject.process import interpreter, process_facts
from gputui.inject.process.images import Memory
from gputui.inject.process.interpreter import Interpreter
from gputui.inject.process.process_facts import Facts
from gputui.inject.refusals import START_WITH_PROBE, Refused
from gputui.inject.ways import by_gdb, payload, remote_debugging, x86_64
from gputui.inject.ways.by_gdb import GdbPlan
from gputui.inject.ways.data_region import FUNCTIONS
from gputui.inject.ways.pending_call import Plan, is_alive
from gputui.inject.ways.remote_debugging import Debugger, Disabled, NoInterpreterError

OLDEST = (3, 8)
THE_PROGRAM = "pgrep -a -P {}   (lists what it has started: attach to the Python program)"


@dataclass(frozen=True, slots=True)
class Target:
    """A process that the probe can be put into.

    `debugger` is for Python's own protocol, `plan` for the helper process, `gdb` for where neither is there; None
    where that way is not open.
    """

    facts: Facts
    python: Interpreter
    debugger: Debugger | None
    plan: Plan | None
    gdb: GdbPlan | None


def examine(pid: int) -> Target:
    """Check a process without touching it; raises Refused."""
    try:
        facts = process_facts.read(pid)
    except OSError as error:
        cause = f"There is no process {pid} here."
        raise Refused("gone", cause, ("gputui attach   (lists the processes you can attach to)",)) from error
    refusal = refusals.refusal(refusals.BEFORE, facts)
    if refusal:
        raise refusal
    _check_launcher(facts)
    try:
        with Memory(pid) as memory:
            return _target(facts, memory)
    except OSError as error:
        refusal = refusals.refusal(refusals.WITHOUT_ACCESS, facts) if isinstance(error, PermissionError) else None
        cause = f"The memory of process {pid} cannot be read: {error.strerror or error}."
        raise refusal or Refused("unreadable", cause) from error


def _check_launcher(facts: Facts) -> None:
    if process_facts.ranks_of(facts.pid):
        cause = f"Process {facts.pid} ({facts.name}) has only launched the ranks of a job, which hold the GPU memory."
        raise Refused("launcher", cause, (f"gputui attach --job {facts.pid}",))
    if not facts.has_torch and process_facts.workers_of(facts.pid):
        cause = f"Process {facts.pid} ({facts.name}) has no PyTorch in it, but processes that it started have."
        raise Refused("launcher", cause, (f"gputui attach --job {facts.pid}",))


def _target(facts: Facts, memory: Memory) -> Target:
    mapped = facts.mapped or []
    python = interpreter.find(mapped, facts.executable, memory, [*FUNCTIONS.values(), *by_gdb.FUNCTIONS])
    if python is None:
        cause = f"Process {facts.pid} ({facts.name}) is not a Python program: gputui finds no CPython in it."
        raise Refused("not Python", cause, (THE_PROGRAM.format(facts.pid),), f"/proc/{facts.pid}/maps")
    version = ".".join(map(str, python.version))
    if python.version < OLDEST:
        cause = f"Process {facts.pid} runs Python {version}; the probe needs {'.'.join(map(str, OLDEST))} or newer."
        raise Refused("too old", cause)
    if python.is_free_threaded:
        cause = f"Process {facts.pid} runs in a free-threaded Python, in which the probe stays off."
        raise Refused("free-threaded", cause, ("Run it in the ordinary build of Python.",))
    try:
        debugger = remote_debugging.find(python.version, python.runtime, facts.inner_pid, memory)
    except Disabled:
        raise _remote_debugging_is_off(facts) from None
    except NoInterpreterError:
        raise _not_alive(facts) from None
    refusal = refusals.refusal(refusals.BEFORE_A_STOP, facts)
    if refusal and debugger is None:
        raise refusal
    if not is_alive(python.lives, memory):
        raise _not_alive(facts)
    plan = _plan(facts, python, memory)
    by_gdb_plan = None if plan or debugger else _gdb_plan(facts, python, memory)
    return Target(facts, python, debugger, plan, by_gdb_plan)


def _not_alive(facts: Facts) -> Refused:
    cause = f"The Python in process {facts.pid} is starting or ending, so it cannot load anything."
    return Refused("not alive", cause)


def _remote_debugging_is_off(facts: Facts) -> Refused:
    """Not even a pending call is tried: it would get round what the program's owner has switched off."""
    where = "its Python was built without it (--without-remote-debug)"
    if "PYTHON_DISABLE_REMOTE_DEBUG" in facts.environment:
        where = "PYTHON_DISABLE_REMOTE_DEBUG is set"
    elif "disable-remote-debug" in facts.command:
        where = "it was started with -X disable-remote-debug"
    cause = f"Remote debugging is switched off in process {facts.pid}: {where}."
    return Refused("remote debugging off", cause, (START_WITH_PROBE,), f"/proc/{facts.pid}/environ and cmdline")


def _plan(facts: Facts, python: Interpreter, memory: Memory) -> Plan | None:
    libc = interpreter.c_library(facts.mapped or [], memory)
    if not x86_64.IS_HERE or libc is None or python.image.elf_machine != x86_64.ELF_MACHINE:
        return None
    munmap = libc.symbols(["munmap"]).get("munmap")
    missing = [name for name in FUNCTIONS.values() if name not in python.functions]
    unused = _unused_code(len(x86_64.MAP), x86_64.MAP, facts, memory)
    if munmap is None or missing or unused is None:
        return None
    functions = {name: python.functions[name] for name in FUNCTIONS.values()}
    return Plan(facts.pid, facts.inner_pid, unused, functions, munmap, payload.LINGER_S, lives=python.lives)


def _gdb_plan(facts: Facts, python: Interpreter, memory: Memory) -> GdbPlan | None:
    gdb = shutil.which("gdb")
    text_at = _unused_code(by_gdb.TEXT_BYTES, by_gdb.START, facts, memory)
    addresses = [python.functions.get(name) for name in by_gdb.FUNCTIONS]
    if gdb is None or text_at is None or None in addresses:
        return None
    return GdbPlan(gdb, text_at, tuple(filter(None, addresses)), python.lives)


def _unused_code(size: int, start_of_own: bytes, facts: Facts, memory: Memory) -> int | None:
    """Room for the first piece of code, or for a text: after the end of the code of any mapped file."""
    mapped = facts.mapped or []
    paths = dict.fromkeys(mapping.path for mapping in mapped if "x" in mapping.permissions and mapping.path[:1] == "/")
    for image in interpreter.images(mapped, paths, memory):
        unused = image.unused_code(size, start_of_own)
        if unused:
            return unused
    return None
