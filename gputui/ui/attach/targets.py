"""The attached processes as the screens know them: their feeds, what came of them so far, and where the user looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Union, runtime_checkable

from gputui.errors import GputuiError
from gputui.explain.actions import ACTIONS
from gputui.explain.tensor_request import BuildTree, build_tree_now
from gputui.explain.tensor_view import TensorView
from gputui.model.analysis import Outcome
from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.playback import Playback
from gputui.model.target import ActionName, Mark
from gputui.model.timeline import Timeline
from gputui.ui.drawing.attach.changes import End


class Feed(Protocol):
    """A conversation with one process."""

    @property
    def pid(self) -> int:
        """The process's PID."""
        ...

    def start(self) -> None:
        """Begin to listen."""
        ...

    def stop(self) -> None:
        """End without waiting."""
        ...

    def look(self, how: str = "walk") -> None:
        """Ask for a look now."""
        ...

    def mark(self, label: str) -> None:
        """Name this moment."""
        ...


@runtime_checkable
class ActionFeed(Protocol):
    """A feed through which something can be done in the program; that of a recording has no such method."""

    def run_action(self, name: ActionName) -> None:
        """Have it done; the moments tell what came of it."""
        ...


class Player(Protocol):
    """What plays a recording."""

    @property
    def playback(self) -> Playback:
        """Where it stands."""
        ...

    def toggle(self) -> None:
        """Pause, or play."""
        ...

    def seek(self, seconds: float) -> None:
        """Go so many seconds on, or back."""
        ...

    def seek_mark(self, steps: int) -> None:
        """Go to the next mark, or the one before."""
        ...

    def change_speed(self, steps: int) -> None:
        """The next speed."""
        ...


@runtime_checkable
class Replayed(Protocol):
    """A feed that a recording is played to."""

    @property
    def player(self) -> Player:
        """Who plays it."""
        ...


FeedMessage = Union[TargetMoment, Timeline]
"""What a feed tells: one moment more, or (of a replay, which can go back) all that has happened until now."""

OpenFeed = Callable[[int, Callable[[FeedMessage], None]], Feed]
"""From a PID and a listener to a feed; raises GputuiError with the sentence why there is none."""


def no_feed(pid: int, _listener: Callable[[FeedMessage], None]) -> Feed:
    """Where there are no probes to look for."""
    cause = f"Process {pid} cannot be attached to from here."
    raise GputuiError(cause)


@dataclass
class Target:
    """One attached process, and how the user looks at it.

    `cursor` is the time that the user went back to, None for now; `device` is PyTorch's index of the device that was
    chosen, None for the first in use; `compared` are the marks whose changes are shown, None for the last mark and now.
    """

    feed: Feed
    timeline: Timeline = field(default_factory=Timeline)
    cursor: float | None = None
    device: int | None = None
    tensors: TensorView = field(default_factory=TensorView)
    read_outcome: Outcome | None = None
    """What came of the last action that the user has put away."""
    compared: dict[str, End | None] = field(default_factory=lambda: {"from": None, "to": None})

    @property
    def moment(self) -> TargetMoment | None:
        """The moment under the cursor, or the newest."""
        return self.timeline.latest if self.cursor is None else self.timeline.at(self.cursor)

    @property
    def device_moment(self) -> DeviceMoment | None:
        """The device that is looked at, at that moment."""
        moment = self.moment
        if moment is None or not moment.devices:
            return None
        used = moment.used_devices
        return next((device for device in used if device.index == self.device), used[0])

    def next_device(self) -> None:
        """Look at the next of the devices that the process uses."""
        if self.moment is not None and self.device_moment is not None:
            indices = [device.index for device in self.moment.used_devices]
            self.device = indices[(indices.index(self.device_moment.index) + 1) % len(indices)]

    @property
    def outcome(self) -> Outcome | None:
        """What came of the last action, until the user has put it away."""
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
        """Who plays this process, where it is of a recording."""
        return self.feed.player if isinstance(self.feed, Replayed) else None

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All marks so far, the newest last."""
        return self.timeline.latest.marks if self.timeline.latest else ()


class Targets:
    """All attached processes, in the order they were attached to; one of them is on screen."""

    def __init__(self, open_feed: OpenFeed, grow: BuildTree = build_tree_now) -> None:
        self._open_feed = open_feed
        self._grow = grow
        self._targets: dict[int, Target] = {}
        self._current = 0

    def attach(self, pid: int, listener: Callable[[FeedMessage], None]) -> None:
        """Attach to a process and look at it; one that is attached already is only looked at."""
        if pid not in self._targets:
            feed = self._open_feed(pid, listener)
            self._targets[feed.pid] = Target(feed, tensors=TensorView(self._grow))
            feed.start()
        self._current = list(self._targets).index(pid)

    def take(self, moment: TargetMoment) -> None:
        """Take a moment of one of the processes in."""
        target = self._targets.get(moment.pid)
        if target:
            target.timeline.add(moment)

    def take_all(self, pid: int, timeline: Timeline) -> None:
        """Take what happened of a process until now, in the place of what was known."""
        target = self._targets.get(pid)
        if target:
            target.timeline = timeline
            if target.cursor is not None and (timeline.latest is None or timeline.latest.time <= target.cursor):
                target.cursor = None  # it lies in what has not happened yet

    @property
    def current(self) -> Target | None:
        """The one on screen."""
        return self.all[self._current % len(self._targets)] if self._targets else None

    @property
    def all(self) -> tuple[Target, ...]:
        """Every one, in order."""
        return tuple(self._targets.values())

    def step(self, steps: int) -> None:
        """Look at a neighbour."""
        if self._targets:
            self._current = (self._current + steps) % len(self._targets)

    def select(self, pid: int) -> None:
        """Look at this one."""
        if pid in self._targets:
            self._current = list(self._targets).index(pid)

    def stop(self) -> None:
        """End every conversation."""
        for target in self._targets.values():
            target.feed.stop()
