"""The attached processes as the screens see them: their feeds, their timelines, and what the user has selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Union, runtime_checkable

from gputui.errors import GputuiError
from gputui.explain.advice.held.holders import Holder
from gputui.explain.answer.answers import Answer, Answers
from gputui.explain.moment.actions import ACTIONS
from gputui.explain.moment.probe_state import at_top
from gputui.explain.owners.earlier_names import look_gain
from gputui.explain.step.view import StepView, recorded_in
from gputui.explain.tensors.request import BuildTree, build_tree_now
from gputui.explain.tensors.view import TensorView
from gputui.explain.whatif.replay.recorded import devices_of
from gputui.explain.whatif.view import HandOver, WhatIfView
from gputui.model.attached.analysis import Outcome
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.target import ActionName, Mark
from gputui.model.attached.timeline import Playback, Timeline
from gputui.ui.drawing.attach.changes import End


class Feed(Protocol):
    """Delivers the moments of one process, and takes requests for it."""

    @property
    def pid(self) -> int:
        """The PID of the process."""
        ...

    def start(self) -> None:
        """Begin to deliver."""
        ...

    def stop(self) -> None:
        """Close the connection without waiting."""
        ...

    def look(self, how: str = "walk") -> None:
        """Ask for a look now; "scan" looks at every Python object."""
        ...

    def mark(self, label: str) -> None:
        """Give the present moment a name."""
        ...


@runtime_checkable
class ActionFeed(Protocol):
    """A feed of a live program, which can run actions there; the feed of a recording cannot."""

    def run_action(self, name: ActionName) -> None:
        """Ask for an action; a later moment has its outcome."""
        ...


class Player(Protocol):
    """Plays a recording."""

    @property
    def playback(self) -> Playback:
        """The position, the length and the speed."""
        ...

    def toggle(self) -> None:
        """Pause or play."""
        ...

    def seek(self, seconds: float) -> None:
        """Go forward, or back if `seconds` is negative."""
        ...

    def seek_mark(self, steps: int) -> None:
        """Go to the next mark (1) or the previous one (-1)."""
        ...

    def change_speed(self, steps: int) -> None:
        """Play faster (1) or slower (-1)."""
        ...


@runtime_checkable
class Replayed(Protocol):
    """The feed of a recording."""

    @property
    def player(self) -> Player:
        """The player of the recording."""
        ...


FeedMessage = Union[TargetMoment, Timeline]
"""What a feed delivers: one more moment, or, from a replay, which can go back, everything up to its present moment."""

SET_BACK_S = 60.0
"""A moment that is so much older than the newest is no late one: the clock was set back."""

OpenFeed = Callable[[int, Callable[[FeedMessage], None]], Feed]
"""Opens the feed of a PID that calls a listener, in a thread of the feed; raises GputuiError where it cannot."""


def no_feed(pid: int, _listener: Callable[[FeedMessage], None]) -> Feed:
    """Opens no feed: raises GputuiError."""
    cause = f"Process {pid} cannot be attached to from here."
    raise GputuiError(cause)


@dataclass
class Target:
    """One attached process, and what the user has selected in it.

    `cursor` is the time (epoch seconds) that the user went back to, None for now. `device` is PyTorch's index of the
    chosen device, None for the first in use. `compared` holds the two ends of the changes shown: None stands for the
    last mark and for now.
    """

    feed: Feed
    timeline: Timeline = field(default_factory=Timeline)
    cursor: float | None = None
    device: int | None = None
    tensors: TensorView = field(default_factory=TensorView)
    step: StepView = field(default_factory=StepView)
    whatif: WhatIfView = field(default_factory=WhatIfView)
    asked: TargetMoment | None = None
    """The moment at which the user asked for a look that is not here yet."""
    read_outcome: Outcome | None = None
    """The last outcome of an action that the user has dismissed."""
    compared: dict[str, End | None] = field(default_factory=lambda: {"from": None, "to": None})
    prefers_top: bool = True
    """Whether screens show the look near the top of a step rather than the newest one."""
    _answers: Answers = field(default_factory=Answers)
    _top: tuple[TargetMoment | None, TargetMoment | None] = (None, None)

    @property
    def moment(self) -> TargetMoment | None:
        """The moment under the cursor, or the newest."""
        return self.timeline.latest if self.cursor is None else self.timeline.at(self.cursor)

    @property
    def device_moment(self) -> DeviceMoment | None:
        """The chosen device in `moment`."""
        return self.device_in(self.moment)

    @property
    def top(self) -> TargetMoment | None:
        """The newest moment with the look that was taken near the top of a step.

        None where that makes no difference, while `cursor` is set, and for a server: its division is of the present.
        """
        latest = self.timeline.latest
        if latest is None or self.cursor is not None or latest.serving is not None:
            return None
        if self._top[0] is not latest:
            self._top = (latest, at_top(latest))
        return self._top[1]

    @property
    def picture(self) -> TargetMoment | None:
        """What screens of memory show: `top`, if the user prefers that and there is one, or `moment`."""
        return (self.top if self.prefers_top else None) or self.moment

    def device_in(self, moment: TargetMoment | None) -> DeviceMoment | None:
        """The chosen device in a moment."""
        if moment is None or not moment.devices:
            return None
        used = moment.used_devices
        return next((device for device in used if device.index == self.device), used[0])

    @property
    def answer(self) -> Answer:
        """The verdict and the findings about `device_moment`."""
        moment, device = self.moment, self.device_moment
        return self._answers.at(moment, device, self.timeline) if moment and device else Answer(None, ())

    def holders(self, moment: TargetMoment, device: DeviceMoment) -> tuple[Holder, ...]:
        """Who holds what on a device, in the look of a moment."""
        return self._answers.holders(moment, device)

    def replace_timeline(self, timeline: Timeline) -> None:
        """Take another timeline; forget cached answers if the last one was rough (it lacked looks) and this is not."""
        if self.timeline.is_rough and not timeline.is_rough:
            self._answers = Answers()
        self.timeline = timeline

    def begin_again(self) -> None:
        """Forget what lies in the future by now, as the clock was set back, and all before it."""
        self.timeline, self._answers = Timeline(), Answers()
        self.cursor = self.asked = None

    def replay_cases(self, hand_over: HandOver) -> None:
        """Replay the newest trace of the chosen device for the What-if screen, unless that was done."""
        latest, device = self.timeline.latest, self.device_moment
        if latest is not None and device is not None:
            self.whatif.follow(recorded_in(latest), device.index, devices_of(latest), hand_over)

    def next_device(self) -> None:
        """Choose the next of the devices that the process uses."""
        if self.moment is not None and self.device_moment is not None:
            indices = [device.index for device in self.moment.used_devices]
            self.device = indices[(indices.index(self.device_moment.index) + 1) % len(indices)]

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the last action, until the user dismisses it."""
        latest = self.timeline.latest
        outcome = latest.outcome if latest else None
        return None if outcome == self.read_outcome else outcome

    @property
    def actions(self) -> tuple[ActionName, ...]:
        """What can be done in the process now."""
        latest = self.timeline.latest
        if latest is None or latest.ended or not isinstance(self.feed, ActionFeed):
            return ()
        offered = (name for name, action in ACTIONS.items() if latest.history in action.recorders)
        return tuple(name for name in offered if name.value in latest.greeting.actions)

    @property
    def player(self) -> Player | None:
        """The player, if this process is from a recording."""
        return self.feed.player if isinstance(self.feed, Replayed) else None

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All marks, the newest last."""
        return self.timeline.latest.marks if self.timeline.latest else ()


class Targets:
    """All attached processes, in the order of attaching; one of them is on screen."""

    def __init__(self, open_feed: OpenFeed, grow: BuildTree = build_tree_now) -> None:
        self._open_feed = open_feed
        self._grow = grow
        self._targets: dict[int, Target] = {}
        self._current = 0

    def attach(self, pid: int, listener: Callable[[FeedMessage], None]) -> None:
        """Attach to a process, unless it is attached already, and show it."""
        if pid not in self._targets:
            feed = self._open_feed(pid, listener)
            self._targets[feed.pid] = Target(feed, tensors=TensorView(self._grow))
            for target in self._targets.values():
                target.timeline.share(len(self._targets))
            feed.start()
        self._current = list(self._targets).index(pid)

    def take(self, moment: TargetMoment) -> str:
        """Add a moment to the timeline of its process; returns what a look that the user asked for has added, or ""."""
        target = self._targets.get(moment.pid)
        if target is None:
            return ""
        latest = target.timeline.latest
        if latest is not None and moment.time < latest.time - SET_BACK_S:
            target.begin_again()
            target.timeline.share(len(self._targets))
        target.timeline.add(moment)
        gain = look_gain(target.asked, moment) if target.asked else ""
        if gain or moment.ended:
            target.asked = None
        return gain

    def take_all(self, pid: int, timeline: Timeline) -> None:
        """Replace the timeline of a process."""
        target = self._targets.get(pid)
        if target:
            target.replace_timeline(timeline)
            if target.cursor is not None and (timeline.latest is None or timeline.latest.time <= target.cursor):
                target.cursor = None  # the replay went back: that time is in the future

    @property
    def current(self) -> Target | None:
        """The process on screen."""
        return self.all[self._current % len(self._targets)] if self._targets else None

    @property
    def all(self) -> tuple[Target, ...]:
        """All attached processes, in the order of attaching."""
        return tuple(self._targets.values())

    def step(self, steps: int) -> None:
        """Show the process `steps` places further, or back if `steps` is negative."""
        if self._targets:
            self._current = (self._current + steps) % len(self._targets)

    def select(self, pid: int) -> None:
        """Show this process, if it is attached."""
        if pid in self._targets:
            self._current = list(self._targets).index(pid)

    def stop(self) -> None:
        """Close every feed and forget the processes."""
        for target in self._targets.values():
            target.feed.stop()
        self._targets.clear()
