"""Switches PyTorch's memory history on for viewers: each block then keeps the Python stack that allocated it.

For viewers, only the stacks of live blocks are kept (`enabled="state"`) and no events: the history does not grow with
time, and a snapshot costs little more. A bounded list of events is kept as well (`enabled="all"`) while a step is
recorded, and all the time if the user wants black boxes to hold the steps before an error. The program's own history is
never touched: nothing is switched on while the program records, or while PyTorch keeps what it has recorded, and when
the program begins to record, what was switched on here is switched off first.
"""

from __future__ import annotations

import inspect
import os
from types import ModuleType
from typing import Any

from gputui import environment
from gputui.probe.allocator import allocator
from gputui.probe.allocator.emptied import EmptyCacheCalls, Wrapped
from gputui.probe.main_thread import process

_SWITCHES = ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy")
"""The functions of `torch._C` that switch history on and off, by name."""


_STATE = {"enabled": "state", "context": "state", "stacks": "python"}
_TRACE = {"enabled": "all", "context": "alloc", "stacks": "python"}
KEPT_EVENTS = 100_000
"""How many events are kept for black boxes: the last steps of most programs. Reading them takes 0.1 to 0.5 s."""


class MemoryHistory:
    """Switches history on and off, and knows whether it was switched on here."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self.is_kept = False
        """Whether the last events are kept for black boxes."""
        self._switches = Wrapped(_SWITCHES)
        self._mode: dict[str, Any] = {}
        """The arguments with which history was switched on here; {} if it was not."""
        self._resumes: dict[str, Any] | None = None
        """While a step is recorded: the `_mode` that is restored after it, {} for none. None if no step is recorded."""
        self.emptied = EmptyCacheCalls()
        """The program's calls of `empty_cache()` while events are kept."""

    def recorder(self, torch: ModuleType) -> str:
        """Who records now: a value of `model.attached.target.Recorder`."""
        if not allocator.is_history_enabled(torch):
            return ""
        return "probe" if self._pid == os.getpid() else "program"

    def switch_on(self, torch: ModuleType) -> str:
        """Switch history on; returns why not, "" on success."""
        if self.recorder(torch) == "probe":
            return "Memory history is on already."
        reason = self._why_not(torch)
        if not reason:
            self._begin(torch, _STATE)
        return reason

    def keep_trace_if_asked(self, torch: ModuleType) -> None:
        """Keep the last events for black boxes, if the environment asks for it and the program does not record.

        Called while PyTorch initialises CUDA: the program may have begun to record earlier, which takes effect now.
        """
        is_asked = os.environ.get(environment.MEMORY_HISTORY) == "1"
        if is_asked and not torch._C._cuda_isHistoryEnabled() and not self._why_not(torch):
            self._begin(torch, {**_TRACE, "max_entries": KEPT_EVENTS})
            self.is_kept = True

    def begin_trace(self, torch: ModuleType, max_entries: int) -> str:
        """Record events, and keep the last `max_entries` of each device; returns why not, "" on success.

        History that is on for viewers or black boxes is switched off meanwhile; `end_trace` switches it on again.
        """
        self._resumes = self._mode if self.recorder(torch) == "probe" else {}
        if self._resumes:
            self._end(torch)
        reason = self._why_not(torch)
        if reason:
            self._resumes = None
        else:
            self._begin(torch, {**_TRACE, "max_entries": max_entries})
        return reason

    def restart_trace(self, torch: ModuleType, max_entries: int) -> None:
        """Forget the recorded events, and keep the last `max_entries` from now on.

        PyTorch's ring would return its events out of order if its length were changed while it is filled.
        """
        if self.recorder(torch) == "probe":
            self._end(torch)
            self._begin(torch, {**_TRACE, "max_entries": max_entries})

    def end_trace(self, torch: ModuleType) -> None:
        """End what `begin_trace` began, unless the program records by now; PyTorch forgets the events."""
        if self._resumes is not None and self.recorder(torch) == "probe":
            self._end(torch)
            if self._resumes:
                self._begin(torch, self._resumes)
        self._resumes = None

    def _why_not(self, torch: ModuleType) -> str:
        if self.recorder(torch):
            return "The program records its memory history itself, and gputui leaves that alone."
        if torch._C._cuda_getAllocatorBackend() != "native":
            return "Only PyTorch's own allocator records a memory history, and this program uses another."
        if any(allocator.traces(torch)):
            return "The program keeps a memory history that it recorded before, and gputui leaves that alone."
        return ""

    def _begin(self, torch: ModuleType, mode: dict[str, Any]) -> None:
        torch.cuda.memory._record_memory_history(**mode, **_for_all_threads(torch))
        self._pid, self._mode = os.getpid(), mode
        self._switches.begin(torch, self.switch_off_if_ours)  # before the program switches on its own
        if "max_entries" in mode:
            self.emptied.begin(torch)

    def _end(self, torch: ModuleType) -> None:
        self._forget(torch)
        torch.cuda.memory._record_memory_history(enabled=None)

    def _forget(self, torch: ModuleType) -> None:
        self._switches.end(torch)
        self.emptied.end(torch)
        self._pid, self._mode = None, {}

    def switch_off(self, torch: ModuleType) -> str:
        """Switch history off; returns why not, "" on success."""
        recorder = self.recorder(torch)
        self._forget(torch)
        self.is_kept = False
        if recorder == "program":
            return "The program records its memory history itself, and gputui leaves that alone."
        if not recorder:
            return "Memory history is off already."
        torch.cuda.memory._record_memory_history(enabled=None)
        return ""

    def switch_off_if_ours(self) -> None:
        """Switch off what was switched on in this process, and not in the one that it was forked from."""
        torch = process.loaded_torch()
        if torch is not None and self._pid == os.getpid() and process.has_cuda(torch):
            self.switch_off(torch)

    def viewers_have_left(self) -> None:
        """Switch off what was switched on for viewers; what is kept for black boxes goes on."""
        if not self.is_kept:
            self.switch_off_if_ours()


def _for_all_threads(torch: ModuleType) -> dict[str, bool]:
    """The argument that hooks all threads: without it, newer PyTorch warns if another thread switches history off."""
    parameters = inspect.signature(torch.cuda.memory._record_memory_history).parameters
    name = "global_record_annotations"
    return {name: True} if name in parameters else {}


memory_history = MemoryHistory()
"""The only instance in this process: history is on or off for all viewers together."""
