"""Loads the probe into a process, and tells how far it is until it has been loaded."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from gputui.inject import refusals, tracer_process
from gputui.inject.checks import Target
from gputui.inject.process import process_facts
from gputui.inject.process.images import Memory
from gputui.inject.refusals import START_WITH_PROBE, Refused
from gputui.inject.tracer_process import HelperError, ScriptHelper
from gputui.inject.ways.by_gdb import GdbPlan
from gputui.inject.ways.data_region import CODE, NAME, NAME_AT, REPORT_AT, REPORT_BYTES, STATE, State
from gputui.inject.ways.pending_call import Queued

_TIMER_SIGNALS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
"""The signals that timers send, and so again and again; others come once in a while."""


class Phase(Enum):
    """How far the probe is."""

    WAITING = "the main thread has not come back to Python"
    STARTING = "the probe is being loaded"
    LOADED = "the probe has been loaded"
    FAILED = "the probe could not start"


@dataclass(frozen=True, slots=True)
class Progress:
    """`trouble` is why the probe could not start, else ""."""

    phase: Phase
    trouble: str = ""


class PendingCall:
    """A probe that the interpreter loads by a pending call; `region` is the address of its data in the process.

    To have that queued, the main thread was stopped for `stopped_s` at the address `stopped_at`.
    """

    def __init__(self, pid: int, queued: Queued) -> None:
        self.pid = pid
        self.stopped_at = queued.stopped_at
        self.stopped_s = queued.stopped_s
        self.region = queued.data
        self._code = queued.code

    def progress(self) -> Progress:
        """How far it is, read from the process's memory; raises OSError once the process has ended."""
        try:
            with Memory(self.pid) as memory:
                state = self._state(memory)
                report = memory.read(self.region + REPORT_AT, REPORT_BYTES).partition(b"\0")[0]
        except OSError:
            os.stat(f"/proc/{self.pid}")
            return Progress(Phase.LOADED)  # the region is gone
        if report:
            return Progress(Phase.FAILED, report.decode(errors="replace"))
        if state == State.NO_THREAD:
            return Progress(Phase.FAILED, "the system allows the program no more threads")
        if state == State.QUEUE_FULL:
            return Progress(Phase.FAILED, "the interpreter's queue of pending calls is full")
        return Progress(Phase.WAITING if state in (State.NEW, State.QUEUED) else Phase.STARTING)

    def withdraw(self) -> None:
        """Have the main thread drop the call when it comes to it; harmless if the process has ended."""
        with suppress(OSError), Memory(self.pid, is_writable=True) as memory:  # the region or the process is gone
            if self._state(memory) == State.QUEUED:
                memory.write(self.region + STATE, State.WITHDRAWN.to_bytes(4, "little"))

    def _state(self, memory: Memory) -> int:
        """One of `State`; raises OSError once the region is gone, even if the program has mapped memory there since."""
        if (memory.word(self.region + CODE), memory.word(self.region + NAME)) != (self._code, self.region + NAME_AT):
            raise OSError(f"other memory at {self.region:#x}")
        return memory.word(self.region + STATE) & 0xFFFFFFFF


class Script:
    """A probe that the interpreter loads by a remote debugging script, or by a text that gdb has queued."""

    def __init__(self, pid: int, gdb: GdbPlan | None = None) -> None:
        self.pid = pid
        self.stopped_at = 0
        self._helper = ScriptHelper(pid, gdb)
        self.stopped_s = float(self._helper.state()["stopped_s"])

    def progress(self) -> Progress:
        """How far it is, as the helper process reports it; raises OSError once the process has ended."""
        state = self._helper.state()
        if state["outcome"]:
            self._helper.close()
            outcome = str(state["outcome"])
            if outcome == tracer_process.ENDED:
                raise FileNotFoundError(errno.ENOENT, outcome)
            return Progress(Phase.LOADED) if outcome == "loaded" else Progress(Phase.FAILED, outcome)
        os.stat(f"/proc/{self.pid}")
        return Progress(Phase.WAITING if state["is_waiting"] else Phase.STARTING)

    def withdraw(self) -> None:
        """Have the helper process take the request back."""
        self._helper.close()


Loading: TypeAlias = PendingCall | Script
"""A probe on its way into a process."""


def load(target: Target, *, is_in_lock: bool = False, is_asleep: bool = False) -> Loading:
    """Put the probe into a process that was checked; raises Refused.

    `is_in_lock`, `is_asleep`: its main thread waits for a lock of Python's, or in another system call, and does not
    come back soon, so the plan starts a thread that loads the probe, in Python 3.14 as well.
    """
    pid = target.facts.pid
    try:
        if target.debugger is not None and not (is_in_lock or is_asleep):
            return _by_protocol(target)
        if target.plan is not None:
            return PendingCall(pid, tracer_process.run(replace(target.plan, is_in_lock=is_in_lock)))
        if target.gdb is not None:
            return Script(pid, target.gdb)
    except (HelperError, OSError) as error:
        raise refused(pid, error) from error
    cause = f"On {os.uname().machine} gputui puts the probe into this Python by gdb, which is not installed here."
    raise Refused("no way", cause, ("apt install gdb   (or another package manager's)", START_WITH_PROBE))


def _by_protocol(target: Target) -> Loading:
    """Load by Python's own protocol, or by a pending call where timers may send signals and a stop is possible.

    Python drops the script if a signal handler raises an exception in it.
    """
    pid = target.facts.pid
    is_signalled = any(target.facts.caught_signals >> number - 1 & 1 for number in _TIMER_SIGNALS)
    if is_signalled and target.plan is not None and not target.facts.tracer:
        with suppress(HelperError):
            return PendingCall(pid, tracer_process.run(target.plan))
    return Script(pid)


def refused(pid: int, error: HelperError | OSError) -> Refused:
    """The refusal for an error: by the rule that explains the step's error or, without one, with the error's text."""
    if not process_facts.is_running(pid):
        return Refused("ended", f"Process {pid} has ended before the probe was in it.")
    step = ""
    if isinstance(error, HelperError):
        rules = refusals.AT_STEP.get((error.step, error.number), ())
        with suppress(OSError):  # it has ended
            refusal = refusals.refusal(rules, process_facts.read(pid))
            if refusal:
                return refusal
        step = f" (step {error.step})"
    cause = f"The probe could not be put into process {pid}: {error}{step}."
    return Refused("failed", cause, (START_WITH_PROBE,))
