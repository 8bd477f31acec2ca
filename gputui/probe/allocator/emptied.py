"""Notes when the program calls `torch.cuda.empty_cache()` while its allocations are recorded.

PyTorch's trace does not show these calls: one that releases nothing leaves no event, and one that releases memory looks
like a release by the allocator itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, List, Optional, Tuple

from gputui.probe.guards.boundary import HISTORY

_FUNCTIONS = ("_cuda_emptyCache", "_accelerator_emptyCache")
"""The functions of `torch._C` that the public ones call."""
CALLS_AT_MOST = 10_000
"""How many calls are kept: the newest ones."""


Calls = Optional[Tuple[List[List[int]], List[int]]]
"""For each call, and for the end of the trace: the sum of requests and frees of blocks so far, by device."""


class Wrapped:
    """Wraps functions of `torch._C`, given by name, so that a function of ours is called before each call of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._replaced: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    @property
    def is_on(self) -> bool:
        """Whether the functions are wrapped now."""
        return bool(self._replaced)

    def begin(self, torch: ModuleType, before: Callable[[], object]) -> None:
        """Wrap the functions: `before` is called before each call of them."""
        for name in self._names:
            original = getattr(torch._C, name, None)
            if original is not None:
                self._replaced[name] = original, _calling(before, original)
                setattr(torch._C, name, self._replaced[name][1])

    def end(self, torch: ModuleType) -> None:
        """Put the functions back, except those that others have replaced since."""
        while self._replaced:
            name, (original, own) = self._replaced.popitem()
            if getattr(torch._C, name, None) is own:
                setattr(torch._C, name, original)


def _calling(before: Callable[[], object], original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*arguments: object, **keywords: object) -> Any:  # noqa: ANN401
        if not HISTORY.is_off:
            HISTORY.enter(before)
        return original(*arguments, **keywords)

    return wrapper


class EmptyCacheCalls:
    """Notes at each call how many blocks were requested and freed before it: the trace has an event for each."""

    def __init__(self) -> None:
        self._functions = Wrapped(_FUNCTIONS)
        self._calls: deque[list[int]] = deque(maxlen=CALLS_AT_MOST)

    def begin(self, torch: ModuleType) -> None:
        """Forget the calls so far, and note those from now on."""
        self.end(torch)
        self._calls.clear()
        self._functions.begin(torch, lambda: self._calls.append(requests_and_frees(torch)))

    def end(self, torch: ModuleType) -> None:
        """Note no more calls."""
        self._functions.end(torch)

    def so_far(self, torch: ModuleType) -> Calls:
        """The calls so far, with the counts of this moment, at which a trace ends; None if calls are not noted."""
        return (list(self._calls), requests_and_frees(torch)) if self._functions.is_on else None


def places_within(traces: Sequence[Sequence[dict[str, Any]]], calls: Calls) -> list[list[int]] | None:
    """For each device and call: how many requests and frees in the trace came before it; None if `calls` is."""
    if calls is None:
        return None
    earlier, counts = calls
    places = []
    for device, events in enumerate(traces):
        kept = sum(event["action"] in ("alloc", "free_requested") for event in events)
        first = counts[device] - kept
        places.append([call[device] - first for call in earlier if call[device] >= first])
    return places


def requests_and_frees(torch: ModuleType) -> list[int]:
    """For each device, how many blocks were requested plus how many were freed since the program started."""
    # imported here, as it imports `threading`: PyTorch has done so, but not every program
    from gputui.probe.allocator import allocator

    return [sum(allocator.changes(torch, device)) for device in range(torch.cuda.device_count())]
