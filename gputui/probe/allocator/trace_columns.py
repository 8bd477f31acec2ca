"""Makes columns and a table of stacks of PyTorch's traces, in the probe's thread, 256 events at a time."""

from __future__ import annotations

from typing import Any

from gputui.probe.guards.probe_thread import let_others_run
from gputui.protocol.trace_events import ACTIONS

MAX_STACKS = 5_000
MAX_FRAMES = 200_000
"""How many frames all stacks may have together; an event whose stack is beyond that has none."""
MAX_DEPTH = 128
_EVENTS = 256
"""How many events are described between two pauses in which other threads run."""


class _Stacks:
    """The different stacks, as numbers of frames. All stacks with a frame share PyTorch's dict of it."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.stacks: list[list[int]] = []
        self._number_of_frame: dict[int, int] = {}
        self._number_of_stack: dict[tuple[int, ...], int] = {}
        self._kept: list[dict[str, Any]] = []
        """The frames, kept alive because they are known by their `id`."""
        self._total = 0

    def number(self, frames: list[dict[str, Any]]) -> int:
        """The number of a stack, innermost frame first; -1 if the stack is empty, or there are too many stacks."""
        stack = frames[:MAX_DEPTH]
        key = tuple(map(id, stack))
        number = self._number_of_stack.get(key)
        if number is not None:
            return number
        if not stack or len(self.stacks) >= MAX_STACKS or self._total + len(stack) > MAX_FRAMES:
            return -1
        self._total += len(stack)
        self.stacks.append([self._number(frame) for frame in stack])
        self._number_of_stack[key] = number = len(self.stacks) - 1
        return number

    def _number(self, frame: dict[str, Any]) -> int:
        number = self._number_of_frame.get(id(frame))
        if number is None:
            number = self._number_of_frame[id(frame)] = len(self.frames)
            self._kept.append(frame)
            self.frames.append({"file": frame["filename"], "line": frame["line"], "function": frame["name"]})
        return number


def describe_traces(traces: list[list[dict[str, Any]]], calls: list[list[int]] | None = None) -> dict[str, Any]:
    """The traces of all devices as `gputui.sources.probe.messages` reads them; empties the lists.

    `calls` are the program's calls of `empty_cache()` (`emptied.places_within`); None if they were not noted.
    """
    stacks = _Stacks()
    numbers = {name: number for number, name in enumerate(ACTIONS)}
    columns = [
        {**_columns(device, events, numbers, stacks), "empty_cache_calls": calls[device] if calls else None}
        for device, events in enumerate(traces)
        if any(map(_is_kept, events))
    ]
    return {"traces": columns, "frames": stacks.frames, "stacks": stacks.stacks}


def _is_kept(event: dict[str, Any]) -> bool:
    return event["action"] != "snapshot" and event["action"] in ACTIONS


def _columns(device: int, events: list[dict[str, Any]], numbers: dict[str, int], stacks: _Stacks) -> dict[str, Any]:
    names = ("actions", "addresses", "sizes_bytes", "streams", "times_us", "stacks", "pools")
    columns: dict[str, list[int]] = {name: [] for name in names}
    actions, addresses, sizes, streams, times, places, pools = columns.values()
    pool_numbers: dict[tuple[int, int], int] = {}
    events.reverse()  # popping from the end moves no other event
    count = 0
    while events:
        event = events.pop()
        count += 1
        if count % _EVENTS == 0:
            let_others_run()
        if not _is_kept(event):
            continue
        actions.append(numbers[event["action"]])
        addresses.append(event.get("addr", event.get("device_free", 0)))
        sizes.append(event["size"])
        streams.append(event["stream"])
        times.append(event.get("time_us", 0))
        places.append(stacks.number(event.get("frames", ())))
        pool = event.get("pool_id")
        pools.append(-1 if pool is None else pool_numbers.setdefault(tuple(pool), len(pool_numbers)))
    if not pool_numbers:
        pools.clear()
    return {"device": device, "count": count, **columns, "pool_table": list(pool_numbers)}
