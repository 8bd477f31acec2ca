"""From what a probe sent to a moment for the screens: all reasoning is done here, in the thread of the feed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputui.explain.bridge import bridge
from gputui.explain.limits import disagreement, foreign, sentences
from gputui.explain.owners import bytes_by_category, groups, owners_of
from gputui.explain.release import predict_device
from gputui.explain.room import room
from gputui.model.allocator import AllocatorStatistics
from gputui.model.moment import NO_FACTS, DeviceLayout, DeviceMoment, HostMoment, TargetMoment
from gputui.model.reading import Absent
from gputui.model.target import ActName, Greeting, Look, Mark, Recorder
from gputui.model.verdict import DriverFacts, Outcome, Room

Layouts = Mapping[int, DeviceLayout]
"""By PyTorch's device index."""


@dataclass(frozen=True, slots=True)
class Heard:
    """All that a probe has said: its newest greeting, counters and look; `layouts` are `layouts_of(look)`.

    `problems` came with the counters. `acting` is the act that was asked for and not answered yet.
    """

    greeting: Greeting
    statistics: tuple[AllocatorStatistics, ...] = ()
    look: Look | None = None
    layouts: Layouts = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    pinned_bytes: int | None = None
    problems: tuple[str, ...] = ()
    history: Recorder = Recorder.NOBODY
    acting: ActName | None = None
    outcome: Outcome | None = None


def layouts_of(look: Look) -> dict[int, DeviceLayout]:
    """What a look tells of each device that the allocator has a map of."""
    if look.map is None:
        return {}
    found = {}
    for counted in look.statistics:
        owners = owners_of(look.map, look.inventory, counted.device)
        found[counted.device] = DeviceLayout(
            statistics=counted,
            settings=look.map.settings,
            release=predict_device(look.map, counted.device, owners),
            owners=owners,
            by_category=bytes_by_category(look.map, owners, counted.device),
            groups=groups(look.map, owners, counted.device),
            storages=tuple(
                storage
                for storage in (look.inventory.storages if look.inventory else ())
                if storage.device == counted.device
            ),
        )
    return found


def problems_of(greeting: Greeting, look: Look | None, layouts: Layouts) -> tuple[str, ...]:
    """Sentences about what could not be known."""
    if look is None:
        return ()
    found = sentences(greeting, look)
    for device, layout in layouts.items():
        found += filter(None, [disagreement(layout.statistics, layout.release.composition), foreign(look, device)])
    return tuple(dict.fromkeys(found))


def moment_of(
    time: float, heard: Heard, drivers: Mapping[int, DriverFacts], host: HostMoment, ended: str = ""
) -> TargetMoment:
    """The moment for the screens."""
    uuids = {device.index: device.uuid for device in heard.greeting.devices}
    devices = tuple(
        _device(counted, uuids.get(counted.device, ""), drivers.get(counted.device, NO_FACTS), heard)
        for counted in heard.statistics
    )
    return TargetMoment(
        time=time,
        greeting=heard.greeting,
        devices=devices,
        host=host,
        marks=heard.marks,
        look_time=heard.look.time if heard.look else 0.0,
        look_cost=heard.look.cost if heard.look else None,
        problems=tuple(dict.fromkeys((*heard.problems, *problems_of(heard.greeting, heard.look, heard.layouts)))),
        ended=ended,
        history=heard.history,
        acting=None if ended else heard.acting,
        outcome=heard.outcome,
    )


def _device(counted: AllocatorStatistics, uuid: str, driver: DriverFacts, heard: Heard) -> DeviceMoment:
    layout = heard.layouts.get(counted.device)
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
        room=_room(driver, heard.look, layout),
    )


def _room(driver: DriverFacts, look: Look | None, layout: DeviceLayout | None) -> Room | None:
    """None where the device's free memory or the allocator's map is not known."""
    free, used = driver.device_free_bytes, driver.device_used_bytes
    if look is None or look.map is None or layout is None or isinstance(free, Absent) or isinstance(used, Absent):
        return None
    return room(
        look.map,
        layout.release,
        layout.statistics,
        device_free_bytes=free,
        device_total_bytes=free + used,
        process_used_bytes=driver.process_used_bytes,
    )
