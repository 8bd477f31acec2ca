"""PyTorch's memory history, switched on for a viewer: each block made from then on keeps the stack that asked for it.

Only stacks on live blocks are kept ("state"), of Python frames, and no list of events: it takes no memory that grows
with time, and a snapshot costs little more. What the program records itself is never touched: nothing is switched on
while it records or keeps what it recorded, and once it records by itself what was switched on here is over.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gputui.probe import allocator, process

_SWITCHES = ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy")
"""What PyTorch's Python calls to switch, by names of `torch._C`."""


_MODE = {"enabled": "state", "context": "state", "stacks": "python"}


class MemoryHistory:
    """Knows whether the history that is recorded is of our making."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._replaced: dict[str, Callable[..., Any]] = {}

    def recorder(self, torch: ModuleType) -> str:
        """Who records: a value of `model.target.Recorder`."""
        if not allocator.is_history_enabled(torch):
            return ""
        return "probe" if self._pid == os.getpid() else "program"

    def switch_on(self, torch: ModuleType) -> str:
        """Switch it on; a sentence where that is not to be."""
        recorder = self.recorder(torch)
        if recorder == "program":
            return "The program records its memory history itself, and that is left alone."
        if recorder == "probe":
            return "It is on already."
        if torch._C._cuda_getAllocatorBackend() != "native":
            return "Only PyTorch's own allocator records a memory history, and this program uses another."
        if any(allocator.traces(torch)):
            return "The program keeps a memory history that it recorded before, and that is left alone."
        torch.cuda.memory._record_memory_history(**_MODE, **_from_any_thread(torch))
        self._pid = os.getpid()
        self._watch(torch)
        return ""

    def switch_off(self, torch: ModuleType) -> str:
        """Switch it off; a sentence where it is not ours."""
        recorder = self.recorder(torch)
        self._unwatch(torch)
        self._pid = None
        if recorder == "program":
            return "The program records its memory history itself, and that is left alone."
        if not recorder:
            return "It is off already."
        torch.cuda.memory._record_memory_history(enabled=None)
        return ""

    def switch_off_if_ours(self) -> None:
        """Switch off what was switched on in this very process (and not in one it was forked from)."""
        torch = process.loaded_torch()
        if torch is not None and self._pid == os.getpid() and process.has_cuda(torch):
            self.switch_off(torch)

    def _watch(self, torch: ModuleType) -> None:
        for name in _SWITCHES:
            if hasattr(torch._C, name):
                self._replaced[name] = getattr(torch._C, name)
                setattr(torch._C, name, self._giving_way(self._replaced[name]))

    def _unwatch(self, torch: ModuleType) -> None:
        while self._replaced:
            name, original = self._replaced.popitem()
            setattr(torch._C, name, original)

    def _giving_way(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What the program calls meanwhile: it finds everything as if nothing had been switched on."""

        def record(*arguments: object, **named: object) -> Any:  # noqa: ANN401
            self.switch_off_if_ours()
            return original(*arguments, **named)

        return record


def _from_any_thread(torch: ModuleType) -> dict[str, bool]:
    """Newer PyTorch hooks the calling thread, and warns on stderr where another one switches off: hook them all."""
    parameters = inspect.signature(torch.cuda.memory._record_memory_history).parameters
    name = "global_record_annotations"
    return {name: True} if name in parameters else {}


memory_history = MemoryHistory()
"""The one of this process: history is either on or off, whoever looks."""
