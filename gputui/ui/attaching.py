"""The part of the application that deals with attached processes: it opens feeds, takes moments, switches screens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from gputui.errors import GputuiError
from gputui.model.moment import TargetMoment
from gputui.model.timeline import Timeline
from gputui.ui.attach.targets import FeedMessage, OpenFeed, Targets
from gputui.ui.attach.tree_thread import TreeThread
from gputui.ui.backend.terminal_app import TerminalApp
from gputui.ui.messages import MomentsTaken, TimelineTaken, TreeGrown
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS


class AttachingApp(TerminalApp):
    """Holds the attached processes; the attach screens draw them."""

    def __init__(self, open_feed: OpenFeed, *, is_ascii: bool) -> None:
        super().__init__(is_ascii=is_ascii)
        self.trees = TreeThread(lambda tree, take: self.post_message(TreeGrown(tree, take)))
        self.targets = Targets(open_feed, self.trees.grow)
        self._moments: SimpleQueue[TargetMoment] = SimpleQueue()
        self.first_pids: tuple[int, ...] = ()
        """Processes to attach to as soon as there is a screen."""
        self.first_words: tuple[str, ...] = ()
        """Sentences to say then."""
        self.is_replay = False
        """Whether a recording is all there is to show."""
        self.is_recording: Callable[[], bool] = bool
        """Whether what is attached to is kept in a file."""

    def attach(self, *pids: int) -> None:
        """Attach to processes and show the first; those that cannot be attached to are said."""
        attached = [pid for pid in pids if self._is_attached(pid)]
        if attached:
            self.targets.select(attached[0])
            self.show_attach_screen("memory")

    def stop_attaching(self) -> None:
        """End every conversation, without waiting."""
        self.targets.stop()
        self.trees.stop()

    def _is_attached(self, pid: int) -> bool:
        try:
            self.targets.attach(pid, partial(self._deliver_heard, pid))
        except GputuiError as error:
            self.notify(str(error), severity="error", markup=False)
            return False
        return True

    def _deliver_heard(self, pid: int, heard: FeedMessage) -> None:
        if isinstance(heard, Timeline):
            self.post_message(TimelineTaken(pid, heard))
        else:
            self._deliver_moment(heard)

    def _deliver_moment(self, moment: TargetMoment) -> None:
        self._moments.put(moment)
        self.post_message(MomentsTaken())

    def on_moments_taken(self) -> None:
        """Keep all of them, for the timeline must miss nothing; an attach screen on top draws the newest."""
        while not self._moments.empty():
            self.targets.take(self._moments.get())
        self._draw_attached()

    def on_timeline_taken(self, message: TimelineTaken) -> None:
        """Keep it in the place of what was known, and let an attach screen on top draw it."""
        self.targets.take_all(message.pid, message.timeline)
        self._draw_attached()

    def on_tree_grown(self, message: TreeGrown) -> None:
        """Hand it to the view that waits for it, and draw it."""
        message.take(message.tree)
        self._draw_attached()

    def _draw_attached(self) -> None:
        screen = self.on_top(AttachScreen)
        if screen and screen.is_mounted:
            screen.update_from_monitor()

    def show_attach_screen(self, name: str) -> None:
        """Go to an attach screen, in the place of the one that is there."""
        if isinstance(self.screen, AttachScreen):
            if name != self.screen.NAME:
                self.switch_screen(ATTACH_SCREENS[name]())
        else:
            self.push_screen(ATTACH_SCREENS[name]())

    def jump_to(self, name: str, address: int) -> None:
        """Go to an attach screen, with the cursor on what lies at an address."""
        self.show_attach_screen(name)

        def jump() -> None:
            if isinstance(self.screen, AttachScreen):
                self.screen.jump(address)

        self.call_after_refresh(jump)
