"""Notes when the program calls `torch.cuda.empty_cache()` while its allocations are recorded.

A call that releases nothing leaves no event in PyTorch's trace, and one that does looks like a release of the
allocator's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, List, Optional, Tuple

from gputui.probe.guards.boundary import HISTORY

_FUNCTIONS = ("_cuda_emptyCache", "_accelerator_emptyCache")
"""What the public functions call, by name in `torch._C`."""
CALLS_AT_MOST = 10_000
"""The newest are kept."""


Calls = Optional[Tuple[List[List[int]], List[int]]]
"""How many blocks of each device were requested and freed before each call, and before the end."""


class Wrapped:
    """Functions of `torch._C`, by name, before each of which one of ours is called while they are wrapped."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._replaced: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}

    @property
    def is_on(self) -> bool:
        """Whether they are wrapped now."""
        return bool(self._replaced)

    def begin(self, torch: ModuleType, before: Callable[[], object]) -> None:
        """Have `before` called from now on."""
        for name in self._names:
            original = getattr(torch._C, name, None)
            if original is not None:
                self._replaced[name] = original, _calling(before, original)
                setattr(torch._C, name, self._replaced[name][1])

    def end(self, torch: ModuleType) -> None:
        """Put the functions back, but for what others have wrapped since."""
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
    """Knows each call by how many blocks were requested and freed before it, which the trace has as events."""

    def __init__(self) -> None:
        self._functions = Wrapped(_FUNCTIONS)
        self._calls: deque[list[int]] = deque(maxlen=CALLS_AT_MOST)

    def begin(self, torch: ModuleType) -> None:
        """Note the calls from now on, those before are forgotten."""
        self.end(torch)
        self._calls.clear()
        self._functions.begin(torch, lambda: self._calls.append(requests_and_frees(torch)))

    def end(self, torch: ModuleType) -> None:
        """Note no more calls."""
        self._functions.end(torch)

    def so_far(self, torch: ModuleType) -> Calls:
        """The calls that were noted, and the counts of this moment, at which a trace ends; None: none are noted."""
        return (list(self._calls), requests_and_frees(torch)) if self._functions.is_on else None


def places_within(traces: Sequence[Sequence[dict[str, Any]]], calls: Calls) -> list[list[int]] | None:
    """For each device and call: how many requests and frees of the trace came before it; None if none were noted."""
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
    """How many blocks of each device were requested and freed since the program began."""
    # it imports `threading`, which PyTorch has imported, but not every program
    from gputui.probe.allocator import allocator

    return [sum(allocator.changes(torch, device)) for device in range(torch.cuda.device_count())]
