"""One moment of an attached process, for a command that looks once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from gputui.explain.memory.collection import likely_bytes
from gputui.explain.memory.need import is_high_enough, moves
from gputui.explain.moment.probe_state import ProbeState, after, moment_among
from gputui.explain.owners.earlier_names import is_well_named
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import DisconnectKind, Look
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Problem
from gputui.protocol.pauses import AUTOMATIC_S
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.feed import read_surroundings, surroundings_of_node
from gputui.sources.probe.garbage import GarbageSearch

NAMES_WAIT_S = 3.0
"""How long looks go on to name what holds the memory."""
GARBAGE_WITHIN_S = 20.0
"""How long to wait for what only reference cycles keep."""
WATCH_S, STILL_S, WATCH_EVERY_S = 12.0, 3.0, 0.25
"""How long to watch allocated memory that moves, how long if it does not move, and how often to ask for counters."""
WATCHED_STEPS = 3
NO_TENSORS = (
    "The tensors did not come within {} s, so only the counters are shown. The program may be stopped (Ctrl-Z, a"
    " debugger), busy in one long call, or short of processor time: try again."
)
NO_NAMES = "The look at all objects of Python's did not come within {} s, so some memory has no name: try again."


def one_moment(
    client: ProbeClient, read_machine: Callable[[], Snapshot], look_pause_s: float | None = AUTOMATIC_S
) -> TargetMoment:
    """Look now, and again until nearly all memory is named or all was searched, for `NAMES_WAIT_S` at most.

    If too little has a name then, one more look goes through all Python objects. NVML is read right after the last of
    these looks, so that its figures and the counters are of the same time; if no look comes, only counters are known,
    and a problem says so. Then, for `WATCH_S` at most, allocated memory is watched until it is known how far it moves,
    and a look near the top has come. `look_pause_s` is how long looks after the first may stop the program at a time,
    None: there are no others.
    """
    counters = client.statistics()
    machine = read_machine()
    state = after(ProbeState(client.greeting), counters)
    try:
        state = after(after(state, client.look()), client.greeting)  # the greeting may have changed meanwhile
        if look_pause_s is not None and counters.automatic is not None:
            state = _named(client, state, look_pause_s)
        if not is_well_named(state.layouts.values()):
            state = after(state, client.look("scan"))
    except ProbeError as error:
        if error.disconnect.kind is not DisconnectKind.TIMED_OUT:
            raise
        moment = _moment_of(client, state, machine)
        what = NO_NAMES if state.look else NO_TENSORS
        return replace(moment, problems=(*moment.problems, Problem(what.format(error.disconnect.detail))))
    if likely_bytes(state.layouts.values()):
        state = with_garbage(client, state, look_pause_s or AUTOMATIC_S)
    machine = read_machine()
    if state.layouts:
        state = _watched(client, state, look_pause_s)
    return _moment_of(client, state, machine)


def _moment_of(client: ProbeClient, state: ProbeState, machine: Snapshot) -> TargetMoment:
    if client.node:
        return moment_among(state, surroundings_of_node(client.greeting, client.node))
    return moment_among(state, read_surroundings(client.greeting, machine, client.greeting.pid))


def _named(client: ProbeClient, state: ProbeState, look_pause_s: float) -> ProbeState:
    """The state after further looks, once nearly all memory is named, all was searched, or `NAMES_WAIT_S` is over."""
    began = time.monotonic()
    with suppress(ProbeError):  # the program may end meanwhile
        has_asked = False
        while (left_s := began + NAMES_WAIT_S - time.monotonic()) > 0 and not _is_named_or_searched(state):
            if not has_asked:
                client.ask_look(when="changed", pause_s=look_pause_s)
            message = client.receive(left_s)
            state = after(state, message) if message else state
            has_asked = not isinstance(message, Look)
    return state


def _is_named_or_searched(state: ProbeState) -> bool:
    return is_well_named(state.layouts.values()) or all(layout.is_searched for layout in state.layouts.values())


def with_garbage(client: ProbeClient, state: ProbeState, pause_s: float) -> ProbeState:
    """The state with what `gc.collect()` would free, if that is known within `GARBAGE_WITHIN_S`."""
    began, search = time.monotonic(), GarbageSearch(client, pause_s, is_asked_for=True)
    with suppress(ProbeError):  # the program may end meanwhile
        while (left_s := began + GARBAGE_WITHIN_S - time.monotonic()) > 0 and state.garbage is None:
            message = search.follow(client.receive(0.0 if search.is_working else left_s))
            state = after(state, message) if message else state
    return state


def _watched(client: ProbeClient, state: ProbeState, look_pause_s: float | None) -> ProbeState:
    """The state with how far memory moves and the look near its top; the newest look stays the one of `state`."""
    seen, began, wants_look, has_asked = state, time.monotonic(), look_pause_s is not None, False
    with suppress(ProbeError):  # the program may end meanwhile
        client.subscribe(WATCH_EVERY_S)
        while (left_s := began + WATCH_S - time.monotonic()) > 0 and not _knows_need(seen, needs_look=wants_look):
            if wants_look and not has_asked:
                client.ask_look(when="changed", pause_s=look_pause_s)
            message = client.receive(left_s)
            seen = after(seen, message) if message else seen
            has_asked = not isinstance(message, Look)
            if time.monotonic() - began > STILL_S and not any(map(moves, seen.swings)):
                break
        client.subscribe(None)
    return replace(state, swings=seen.swings, top=seen.top, top_layouts=seen.top_layouts)


def _knows_need(state: ProbeState, *, needs_look: bool) -> bool:
    """Whether some steps were watched, and a look near their top has come, if one is wanted."""
    widest = max(filter(moves, state.swings), key=lambda swing: swing.highest_allocated_bytes, default=None)
    if widest is None or widest.step_s is None or widest.seconds < max(STILL_S, WATCHED_STEPS * widest.step_s):
        return False
    return not needs_look or (state.top is not None and is_high_enough(widest, state.top))
