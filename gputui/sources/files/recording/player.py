"""Plays a recording: a thread that passes its moments to the screens in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from gputui.model.attached.timeline import SPEEDS, Playback, Timeline
from gputui.sources.files.recording.bookmarks import Bookmarks
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.story import Rename, Story, StoryMarks
from gputui.sources.named_machine import NamedMachine

Listener = Callable[[Timeline], None]

LATE_S = 0.5
"""The most time that one step covers: if reading takes longer, the replay slows down and skips nothing."""

SHORTEST_S = 0.05
"""The shortest time between two steps, at any speed."""


class Player:
    """Plays from the beginning once there is a listener; all methods may be called in any thread and return at once."""

    def __init__(
        self, recording: Recording, rename: Rename = lambda greeting: greeting, *, is_playing: bool = True
    ) -> None:
        self.recording = recording
        self._rename = rename
        self.playback = Playback(0.0, recording.ends - recording.begins, is_playing=is_playing)
        """The position."""
        self._listeners: dict[int, Listener] = {}
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._bookmarks: StoryMarks = Bookmarks()
        self._story = self._story_at(recording.begins)
        self._newest: dict[int, Timeline] = {}
        self._position = recording.begins
        self._speed = 1.0
        self._is_playing = is_playing
        self._is_rough = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="gputui-replay", daemon=True)

    def listen(self, pid: int, listener: Listener) -> None:
        """Pass a process's timelines to `listener` from now on."""

        def add() -> None:
            self._listeners[pid] = listener
            listener(self._newest.get(pid, Timeline()))

        self._commands.put(add)
        if not self._thread.is_alive():
            self._thread.start()

    def machine(self) -> NamedMachine:
        """The recorded host, at the time of the replay."""
        return NamedMachine(lambda: self.recording.begins + self.playback.position_s, self.recording.about.hostname)

    def stop(self) -> None:
        """End without waiting."""
        self._commands.put(self._stop)

    def toggle(self) -> None:
        """Pause or play; at the end, play from the beginning."""
        self._commands.put(self._toggle)

    def seek(self, seconds: float) -> None:
        """Move by `seconds` (back, if negative), at most to the ends."""
        self._commands.put(lambda: self._go_to(self._position + seconds))

    def seek_mark(self, steps: int) -> None:
        """Go to the next mark, or the previous one; without one, to the end or beginning of the recording."""
        self._commands.put(lambda: self._go_to(self._mark_before() if steps < 0 else self._mark_after()))

    def change_speed(self, steps: int) -> None:
        """Move by `steps` in `SPEEDS`."""
        self._commands.put(lambda: self._change_speed(steps))

    def _run(self) -> None:
        last = time.monotonic()
        while not self._is_stopped:
            command = self._next_command()
            now = time.monotonic()
            updates: dict[int, Timeline] = {}
            if self._is_playing:
                updates = self._advance(self._position + min(now - last, LATE_S) * self._speed)
            last = now
            if command is not None:
                command()
                last = time.monotonic()
            self._publish(updates)
            if self._is_rough and self._commands.empty():  # after the last of many jumps
                self._fill_in()
                last = time.monotonic()
        self.recording.close()

    def _next_command(self) -> Callable[[], None] | None:
        """The next command, None once it is time to advance."""
        try:
            return self._commands.get(timeout=self._pause_s() if self._is_playing and not self._is_at_end else None)
        except Empty:
            return None

    def _pause_s(self) -> float:
        """Seconds until the next record is due or the clock on screen changes."""
        due = self._story.next_time or self.recording.ends
        second_s = 1.0 - (self._position - self.recording.begins) % 1.0
        return max(SHORTEST_S, min(due - self._position, second_s) / self._speed)

    def _advance(self, position: float, *, is_rough: bool = False) -> dict[int, Timeline]:
        """Go forward to a time; returns the timelines, by PID, that have something new."""
        self._position = min(position, self.recording.ends)
        updates = self._story.advance(self._position, is_rough=is_rough)
        self._newest.update(updates)
        return updates

    def _publish(self, updates: dict[int, Timeline]) -> None:
        """Pass timelines to their listeners if they are new, or if the clock on screen has changed."""
        before = self.playback
        length_s = self.recording.ends - self.recording.begins
        self.playback = Playback(self._position - self.recording.begins, length_s, self._speed, self._is_playing)
        is_changed = before.shown != self.playback.shown
        for pid, listener in self._listeners.items():
            if pid in updates or is_changed:
                listener(self._newest.get(pid, Timeline()))

    def _go_to(self, position: float) -> None:
        position = max(self.recording.begins, min(position, self.recording.ends))
        bookmark = self._bookmarks.before(position)
        if position < self._position or (bookmark and bookmark.time > self._position):
            self._story = self._story_at(position)
            self._newest = {pid: Timeline() for pid in self.recording.greetings}
        self._advance(position, is_rough=True)
        self._publish_all()
        self._is_rough = True

    def _fill_in(self) -> None:
        """Read what a jump has left out to show something at once."""
        self._is_rough = False
        self._story = self._story_at(self._position)
        self._advance(self._position)
        self._publish_all()

    def _story_at(self, position: float) -> Story:
        """A story that begins at the last bookmark before a position, to which it has yet to advance."""
        return Story(self.recording, self._rename, self._bookmarks, position)

    def _publish_all(self) -> None:
        for pid, listener in self._listeners.items():
            listener(self._newest.get(pid, Timeline()))

    def _toggle(self) -> None:
        if self._is_at_end:
            self._is_playing = True
            self._go_to(self.recording.begins)
        else:
            self._is_playing = not self._is_playing

    def _change_speed(self, steps: int) -> None:
        index = SPEEDS.index(self._speed) + steps
        self._speed = SPEEDS[max(0, min(index, len(SPEEDS) - 1))]

    @property
    def _is_at_end(self) -> bool:
        return self._position >= self.recording.ends

    def _stop(self) -> None:
        self._is_stopped = True

    def _mark_before(self) -> float:
        """The last mark more than a second ago: the mark just passed would keep the user from going further back."""
        moments = [timeline.latest for timeline in self._newest.values()]
        marks = [mark.time for moment in moments if moment for mark in moment.marks]
        return max((mark for mark in marks if mark < self._position - 1.0), default=self.recording.begins)

    def _mark_after(self) -> float:
        mark = self.recording.next_mark(self._position)
        return self.recording.ends if mark is None else mark


class ReplayFeed:
    """One process of a recording, with the interface of `TargetFeed`; requests do nothing."""

    def __init__(self, player: Player, pid: int, listener: Listener, *, shown_as: int | None = None) -> None:
        """`pid` is the PID in the recording, `shown_as` the one on the screens."""
        self.player = player
        self.pid = pid if shown_as is None else shown_as
        self._recorded_pid = pid
        self._listener = listener

    def start(self) -> None:
        """Begin to listen."""
        self.player.listen(self._recorded_pid, self._listener)

    def stop(self) -> None:
        """End without waiting."""
        self.player.stop()

    def look(self, how: str = "walk") -> None:
        """Does nothing: a recording gets no more looks."""

    def mark(self, label: str) -> None:
        """Does nothing: a recording cannot be marked."""
