"""What hours of counters of an attached process cost: memory of the timeline, and time of a frame.

python -m benchmarks.history [--size 200x50]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import fields, replace

from gputui.model.allocator import AllocatorStatistics
from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.timeline import Timeline
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.memory import Axis, draw_timeline, timeline_top
from gputui.units import MIB
from tests.explain.moments import moment

HOURS = (0.25, 1, 4, 8)
"""The timeline keeps four hours at most."""
FRAMES = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What hours of history cost on the attach screens.")
    parser.add_argument("--size", default="200x50", help="COLUMNSxLINES")
    columns, rows = map(int, parser.parse_args(arguments).size.split("x"))
    print("| hours seen | hours kept | MiB per device | processor time of a frame, ms |\n| ---: | ---: | ---: | ---: |")
    for hours in HOURS:
        tracemalloc.start()
        timeline = timeline_of(int(hours * 3600))
        kept_mib = tracemalloc.get_traced_memory()[0] / MIB
        tracemalloc.stop()
        drawn_ms = frame_ms(timeline, columns, rows)
        print(f"| {hours:g} | {len(timeline.points) / 3600:g} | {kept_mib:.1f} | {drawn_ms:.1f} |")
    return 0


def timeline_of(seconds: int) -> Timeline:
    """One moment a second of one device, each with different counters."""
    first = moment(time=1000.0)
    device = first.devices[0]
    counters = [
        field.name
        for field in fields(AllocatorStatistics)
        if field.name != "device" and isinstance(getattr(device.statistics, field.name), int)
    ]
    timeline = Timeline()
    for second in range(seconds):
        timeline.add(_at(first, device, counters, second))
    return timeline


def _at(first: TargetMoment, device: DeviceMoment, counters: Sequence[str], second: int) -> TargetMoment:
    values = {name: 10**9 + second * 1000 + place for place, name in enumerate(counters)}
    now = replace(device, statistics=replace(device.statistics, **values))
    return replace(first, time=1000.0 + second, devices=(now,))


def frame_ms(timeline: Timeline, columns: int, rows: int) -> float:
    """Processor time to redraw the timeline, which happens once a second."""
    latest = timeline.latest
    if latest is None:
        return 0.0
    device, appearance = latest.devices[0].index, Appearance()
    start_s = time.process_time()
    for _ in range(FRAMES):
        axis = Axis(timeline.points, columns, 1.0, latest.time)
        draw_timeline(axis, device, timeline_top(timeline.points, device), rows, None, (), appearance)
    return 1000 * (time.process_time() - start_s) / FRAMES


if __name__ == "__main__":
    raise SystemExit(main())
