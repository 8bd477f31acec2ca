"""From a probe's messages to a moment for the screens. What is costly is computed here, in the feed's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gputui.explain.advice.leaks.counters import growth_of
from gputui.explain.memory.bridge import bridge
from gputui.explain.memory.collection import Names, still_there
from gputui.explain.memory.need import need_of
from gputui.explain.memory.release import predict_device
from gputui.explain.memory.room import room
from gputui.explain.moment.actions import outcome_of, recorder_after
from gputui.explain.moment.limits import disagreement, foreign, look_problems
from gputui.explain.owners.earlier_names import completed, with_names_of
from gputui.explain.owners.owners import block_bytes, bytes_by_category, grouped, owners_of
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.analysis import DriverFacts, Outcome, Room
from gputui.model.attached.moment import NO_FACTS, DeviceLayout, DeviceMoment, HostMoment, Surroundings, TargetMoment
from gputui.model.attached.serving import Serving
from gputui.model.attached.target import (
    ActionName,
    ActionResult,
    Disconnect,
    Garbage,
    Greeting,
    Look,
    Mark,
    Recorder,
    ReferencesPart,
    Statistics,
    Swing,
)
from gputui.model.attached.tensors import HOST
from gputui.model.attached.trace import RecordedTraces
from gputui.model.collectives import Launched
from gputui.model.reading import Absent, Problem, Reading

MARKS_AT_MOST = 200
READINGS_AT_MOST = 300
LOOK_AGES_S = 20.0
"""A look older than this does not tell what grows now."""
TOP_SHARE, TOP_LASTS_S = 0.95, 60.0
"""A look with this share of the allocated bytes of the top look replaces it; after this time, any look does."""
NO_PINNED = Absent("not reported by this version of PyTorch")

Layouts = Mapping[int, DeviceLayout]
"""Layouts by PyTorch's device index."""


Message = Greeting | Statistics | Look | Mark | ActionResult | RecordedTraces | Garbage | ReferencesPart


class Height(NamedTuple):
    """When a look was taken (epoch seconds), and the most that all devices had allocated then or in tops before it."""

    time: float
    allocated_bytes: int

    def in_place_of(self, top: Height | None) -> Height | None:
        """That of the top look if this look replaces `top` as the picture of the top of a step; None if it does not."""
        if top is None or abs(self.time - top.time) > TOP_LASTS_S:  # a clock may be set back
            return self
        if self.allocated_bytes < TOP_SHARE * top.allocated_bytes:
            return None
        return Height(self.time, max(self.allocated_bytes, top.allocated_bytes))


def height_of(time: float, statistics: Iterable[AllocatorStatistics]) -> Height:
    """The height of a look with these counters."""
    return Height(time, sum(counted.allocated_bytes for counted in statistics))


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The newest of what a probe sent: greeting, counters, look and so on; `layouts` are `layouts_of(look)`.

    `named` is the newest look that had time for the tensors: looks without tensors take their names from it.
    `problems` came with the counters. `pending_action` was asked for and has no result yet.
    """

    greeting: Greeting
    statistics: tuple[AllocatorStatistics, ...] = ()
    look: Look | None = None
    layouts: Layouts = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    pinned_bytes: int | None = None
    problems: tuple[Problem, ...] = ()
    history: Recorder = Recorder.NOBODY
    pending_action: ActionName | None = None
    outcome: Outcome | None = None
    named: Look | None = None
    recorded: RecordedTraces | None = None
    swings: tuple[Swing, ...] = ()
    serving: Serving | None = None
    top: Look | None = None
    top_layouts: Layouts = field(default_factory=dict)
    """`top` is the look that shows the top of a step: see `Height`."""
    highest: Height | None = None
    garbage: Garbage | None = None
    garbage_names: Names = field(default_factory=dict)
    """The owners of all blocks when `garbage` was found."""
    groups: tuple[Launched, ...] = ()
    main_thread: str = ""
    readings: tuple[tuple[float, int], ...] = ()
    """(epoch seconds, allocated bytes of all devices) of the newest counters; ascending, though clocks are set back."""

    @property
    def wants_look(self) -> bool:
        """Whether memory grows by the counters, and the newest look is too old or too incomplete to name what grows."""
        if growth_of(self.readings) is None:
            return False
        inventory = self.look.inventory if self.look else None
        if inventory is None or not inventory.is_complete or self.look is None:
            return True
        return self.readings[-1][0] - (inventory.time or self.look.time) > LOOK_AGES_S


def layouts_of(look: Look) -> dict[int, DeviceLayout]:
    """The layout of each device of a look; {} without a map."""
    if look.map is None:
        return {}
    layouts = {}
    for counted in look.statistics:
        owners = owners_of(look.map, look.inventory, counted.device)
        members = list(block_bytes(look.map, owners, counted.device))
        layouts[counted.device] = DeviceLayout(
            statistics=counted,
            settings=look.map.settings,
            release=predict_device(look.map, counted.device, owners),
            owners=owners,
            by_category=bytes_by_category(members),
            groups=grouped(members),
            storages=tuple(
                storage
                for storage in (look.inventory.storages if look.inventory else ())
                if storage.device == counted.device
            ),
            names_time=(look.inventory.time or look.time) if look.inventory else 0.0,
            is_searched=look.inventory is not None and look.inventory.is_searched,
        )
    return layouts


def problems_of(greeting: Greeting, look: Look | None, layouts: Layouts) -> tuple[Problem, ...]:
    """The problems of a look: what it could not know, and where its parts do not agree."""
    if look is None:
        return ()
    problems = look_problems(greeting, look)
    for device, layout in layouts.items():
        problems += disagreement(layout.statistics, layout.release.composition)
        problems += foreign(look, device)
    return tuple(dict.fromkeys(problems))


def after(state: ProbeState, message: Message) -> ProbeState:
    """The state after one more message."""
    return _AFTER[type(message)](state, message)


def _after_counters(state: ProbeState, message: Statistics) -> ProbeState:
    return replace(
        state,
        statistics=message.devices,
        pinned_bytes=message.pinned_bytes,
        problems=message.problems,
        history=message.history,
        swings=message.swings,
        serving=message.serving,
        groups=tuple(_since(group, state.groups, message.time) for group in message.groups),
        main_thread=message.main_thread,
        readings=(
            *(earlier for earlier in state.readings[1 - READINGS_AT_MOST :] if earlier[0] < message.time),
            (message.time, sum(counted.allocated_bytes for counted in message.devices)),
        ),
    )


def _since(group: Launched, before: Iterable[Launched], time: float) -> Launched:
    """The group with `since`: when its present count of collectives was first seen."""
    earlier = next((one for one in before if one.group == group.group and one.launched == group.launched), None)
    return group._replace(since=earlier.since if earlier else time)


def _after_look(state: ProbeState, message: Look) -> ProbeState:
    counted = message.statistics or state.statistics
    look, (named, _) = completed(message, (state.named, state.look))
    layouts = layouts_of(look)
    highest = height_of(message.time, message.statistics).in_place_of(state.highest)
    if highest is not None:
        state = replace(state, top=look, top_layouts=layouts, highest=highest)
    garbage = still_there(state.garbage, state.garbage_names, look.map, _names_of(layouts))
    return replace(state, statistics=counted, look=look, layouts=layouts, named=named, garbage=garbage)


def _after_action(state: ProbeState, message: ActionResult) -> ProbeState:
    history = state.history if message.reason else recorder_after(message.name, state.history)
    outcome = outcome_of(message, (state.garbage, state.look.map if state.look else None))
    has_collected = message.name is ActionName.COLLECT and not message.reason
    garbage = None if has_collected else state.garbage
    return replace(state, pending_action=None, outcome=outcome, history=history, garbage=garbage)


def _after_step(state: ProbeState, message: RecordedTraces) -> ProbeState:
    look = with_names_of(message.look, state.named)
    return replace(_after_look(state, look), recorded=replace(message, look=look))


_AFTER: dict[type[Message], Callable[[ProbeState, Any], ProbeState]] = {
    Greeting: lambda state, message: replace(state, greeting=message),
    Statistics: _after_counters,
    Look: _after_look,
    Mark: lambda state, message: replace(state, marks=(*state.marks, message)[-MARKS_AT_MOST:]),
    ActionResult: _after_action,
    RecordedTraces: _after_step,
    Garbage: lambda state, message: replace(state, garbage=message, garbage_names=_names_of(state.layouts)),
    ReferencesPart: lambda state, _message: state,  # a part of a search, of which only the result (`Garbage`) counts
}


def _names_of(layouts: Layouts) -> Names:
    return {(device, address): owner for device, layout in layouts.items() for address, owner in layout.owners.items()}


def moment_among(state: ProbeState, surroundings: Surroundings) -> TargetMoment:
    """The moment for the screens, from the probe's messages and what the viewer itself reads."""
    inventory = state.look.inventory if state.look else None
    storages = tuple(storage for storage in (inventory.storages if inventory else ()) if storage.device == HOST)
    pinned: Reading[int] = NO_PINNED if state.pinned_bytes is None else state.pinned_bytes
    host = HostMoment(
        rss_bytes=surroundings.rss_bytes,
        pinned_bytes=pinned,
        tensor_bytes=sum(storage.size_bytes for storage in storages),
        storages=storages,
        workers=surroundings.workers,
    )
    moment = moment_of(surroundings.time, state, dict(surroundings.drivers), host, surroundings.ended)
    return replace(moment, node=surroundings.node)


def moment_of(
    time: float,
    state: ProbeState,
    drivers: Mapping[int, DriverFacts],
    host: HostMoment,
    ended: Disconnect | None = None,
) -> TargetMoment:
    """The moment for the screens; `drivers` has NVML's facts by PyTorch's index."""
    uuids = {device.index: device.uuid for device in state.greeting.devices}
    counters = {counted.device: counted for counted in state.statistics}  # a false probe may send a device twice
    devices = tuple(
        _device(counted, uuids.get(index, ""), drivers.get(index, NO_FACTS), state)
        for index, counted in counters.items()
    )
    return TargetMoment(
        time=time,
        greeting=state.greeting,
        devices=devices,
        host=host,
        marks=state.marks,
        look_time=state.look.time if state.look else 0.0,
        look_cost=state.look.cost if state.look else None,
        problems=tuple(dict.fromkeys((*state.problems, *problems_of(state.greeting, state.look, state.layouts)))),
        ended=ended,
        history=state.history,
        pending_action=None if ended else state.pending_action,
        outcome=state.outcome,
        look=state.look,
        recorded=state.recorded,
        top_look=state.top,
        serving=state.serving,
        garbage=state.garbage,
        groups=state.groups,
        main_thread=state.main_thread,
    )


def at_top(moment: TargetMoment) -> TargetMoment | None:
    """The moment with the look at the top of a step, and its counters, in place of the newest look and counters.

    None after the end, without such a look, and where a step needs hardly more than what is allocated all the time.
    """
    look = moment.top_look
    if look is None or moment.ended or not any(need_of(device) for device in moment.devices if device.top):
        return None
    devices = tuple(device if device.top is None else _at_top(device, device.top, look) for device in moment.devices)
    return replace(moment, devices=devices, look=look, look_time=look.time, look_cost=look.cost, is_top=True)


def _at_top(device: DeviceMoment, top: DeviceLayout, look: Look) -> DeviceMoment:
    levels = bridge(
        top.statistics,
        process_used_bytes=device.driver.process_used_bytes,
        device_used_bytes=device.driver.device_used_bytes,
        composition=top.release.composition,
    )
    room_there = _room(device.driver, look, top)
    return replace(device, statistics=top.statistics, layout=top, bridge=levels, room=room_there)


def _device(counted: AllocatorStatistics, uuid: str, driver: DriverFacts, state: ProbeState) -> DeviceMoment:
    layout = state.layouts.get(counted.device)
    levels = bridge(
        counted,
        process_used_bytes=driver.process_used_bytes,
        device_used_bytes=driver.device_used_bytes,
        composition=layout.release.composition if layout else None,
    )
    return DeviceMoment(
        index=counted.device,
        uuid=uuid,
        statistics=counted,
        driver=driver,
        layout=layout,
        bridge=levels,
        room=_room(driver, state.look, layout),
        swing=next((swing for swing in state.swings if swing.device == counted.device), None),
        top=state.top_layouts.get(counted.device),
    )


def _room(driver: DriverFacts, look: Look | None, layout: DeviceLayout | None) -> Room | None:
    """The largest allocations that fit; None without NVML's figures or the allocator's map."""
    free, used = driver.device_free_bytes, driver.device_used_bytes
    if look is None or look.map is None or layout is None or isinstance(free, Absent) or isinstance(used, Absent):
        return None
    return room(look.map, layout.release, device_free_bytes=free, device_total_bytes=free + used)
