"""Notes when the program calls `torch.cuda.empty_cache()` while its allocations are recorded.

A call that releases nothing leaves no event in PyTorch's trace, and one that does looks like a release of the
allocator's own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

_FUNCTIONS = ("_cuda_emptyCache", "_accelerator_emptyCache")
"""What the public functions call, by name in `torch._C`."""
CALLS_AT_MOST = 10_000


class EmptyCacheCalls:
    """Knows each call by how many blocks were requested and freed before it, which the trace has as events."""

    def __init__(self) -> None:
        self._replaced: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
        self._calls: list[list[int]] = []

    def begin(self, torch: ModuleType) -> None:
        """Note the calls from now on, those before are forgotten."""
        self.end(torch)
        self._calls = []
        for name in _FUNCTIONS:
            original = getattr(torch._C, name, None)
            if original is not None:
                self._replaced[name] = original, self._noting(torch, original)
                setattr(torch._C, name, self._replaced[name][1])

    def end(self, torch: ModuleType) -> None:
        """Note no more calls."""
        while self._replaced:
            name, (original, own) = self._replaced.popitem()
            if getattr(torch._C, name, None) is own:
                setattr(torch._C, name, original)

    def within(self, traces: list[list[dict[str, Any]]], counts: list[int]) -> list[list[int]]:
        """For each device and call: how many requests and frees of the trace came before it.

        `counts` are those of the moment at which the trace ends.
        """
        places = []
        for device, events in enumerate(traces):
            kept = sum(event["action"] in ("alloc", "free_requested") for event in events)
            first = counts[device] - kept
            places.append([call[device] - first for call in self._calls if call[device] >= first])
        return places

    def _noting(self, torch: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
        def empty_cache(*arguments: object, **keywords: object) -> Any:  # noqa: ANN401
            if len(self._calls) < CALLS_AT_MOST:
                try:
                    self._calls.append(requests_and_frees(torch))
                except Exception:  # noqa: BLE001, S110 (in a forked child, say; the program's own call is what counts)
                    pass
            return original(*arguments, **keywords)

        return empty_cache


def requests_and_frees(torch: ModuleType) -> list[int]:
    """How many blocks of each device were requested and freed since the program began."""
    from gputui.probe import allocator  # it imports `threading`, which PyTorch has imported, but not every program

    return [sum(allocator.changes(torch, device)) for device in range(torch.cuda.device_count())]
