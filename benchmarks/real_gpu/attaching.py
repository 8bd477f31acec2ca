"""Attaching to a training that runs without a probe: how long it takes until a picture has names, and for how much."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from benchmarks.real_gpu.place import HANGS_S, Place, Running
from benchmarks.real_gpu.result import Result, Size
from benchmarks.real_gpu.viewer import view
from gputui.explain.answer.answers import Answers
from gputui.model.attached.moment import DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.attached.tensors import Category
from gputui.model.attached.timeline import Timeline
from gputui.sources.probe.loading import CannotLoadError, put_probe_in

NAMED, NAMED_WITHIN_S = 0.95, 5.0
"""What is taken for granted."""


def named_share(layout: DeviceLayout) -> float:
    """Of the allocated memory."""
    sums = layout.by_category
    nameless = sums.get(Category.UNATTRIBUTED, 0) + sums.get(Category.NEWER, 0)
    return 1 - nameless / max(1, layout.statistics.allocated_bytes)


@dataclass
class Pictures:
    """The looks that a viewer got, each with the seconds since `began`; `is_named`: one had enough names."""

    began: float
    looks: list[tuple[float, DeviceMoment]] = field(default_factory=list)
    line: str = ""
    is_named: threading.Event = field(default_factory=threading.Event)
    _timeline: Timeline = field(default_factory=Timeline)
    _answers: Answers = field(default_factory=Answers)
    _looked_at: float = 0.0

    def take(self, moment: TargetMoment) -> None:
        """A new moment."""
        self._timeline.add(moment)
        if not moment.devices or moment.look_time == self._looked_at or moment.devices[0].layout is None:
            return
        self._looked_at, device = moment.look_time, moment.devices[0]
        answer = self._answers.at(moment, device, self._timeline).verdict
        self.line = answer.sentence if answer else ""
        self.looks.append((time.monotonic() - self.began, device))
        if device.layout and named_share(device.layout) >= NAMED:
            self.is_named.set()


def attaching(_place: Place, size: Size, running: Running) -> Result:
    """Put the probe in, and watch as the screens do."""
    result, pictures, told = Result(), Pictures(time.monotonic()), list[str]()
    try:
        put_probe_in(running.pid, told.append, HANGS_S)
    except CannotLoadError as error:
        result.left_out.append(str(error))
        return result
    result.figures["the probe is in, s"] = round(time.monotonic() - pictures.began, 2)
    result.figures |= {"said meanwhile": told} if told else {}
    view(running.pid, pictures.take, size.watched_s, pictures.is_named)
    _judge(result, pictures)
    return result


def _judge(result: Result, pictures: Pictures) -> None:
    layouts = [(at_s, device.layout) for at_s, device in pictures.looks if device.layout]
    named = [(at_s, named_share(layout)) for at_s, layout in layouts if named_share(layout)]
    is_right = all(_adds_up(layout) for _, layout in layouts)
    result.expect("parts and categories of each look", "add up", "do not add up", holds=is_right)
    result.expect("a picture with names", f"within {HANGS_S:.0f} s", "none", holds=bool(named))
    if named:
        first_s, share = named[0]
        most = max(share for _, share in named)
        result.figures |= {
            "first picture with names, s": round(first_s, 2),
            "named in it, %": round(100 * share, 1),
            "named at most, %": round(100 * most, 1),
            "the first line": pictures.line,
        }
        result.expect("the share with names", f"{NAMED:.0%} at least", f"{most:.1%} at most", holds=most >= NAMED)
        within = f"within {NAMED_WITHIN_S:.0f} s"
        result.expect_time("a picture with names", within, f"after {first_s:.1f} s", holds=first_s <= NAMED_WITHIN_S)


def _adds_up(layout: DeviceLayout) -> bool:
    counted = layout.statistics
    in_parts = layout.release.composition.reserved_bytes == counted.reserved_bytes
    return in_parts and sum(layout.by_category.values()) == counted.allocated_bytes
