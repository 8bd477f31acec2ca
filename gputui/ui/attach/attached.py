"""The attached processes of the application: opens their feeds and takes what the feeds deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Protocol

from textual.message import Message

from gputui.errors import GputuiError
from gputui.explain.step.step import Step, step_of
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.serving import ServerPage
from gputui.model.attached.target import ActionName, Look
from gputui.model.attached.timeline import Timeline
from gputui.model.attached.trace import Trace
from gputui.model.collectives import Inquiry, Question
from gputui.model.past import Past
from gputui.ui.attach.targets import ActionFeed, FeedMessage, OpenFeed, Targets
from gputui.ui.attach.tree_thread import TreeThread
from gputui.ui.messages import HandedOver, MomentsTaken, TimelineTaken


class Host(Protocol):
    """What `Attached` needs of the application."""

    def post_message(self, message: Message) -> bool:
        """Have `message` handled in the application's thread; called from the threads of feeds."""
        ...

    def say(self, sentence: str, *, is_error: bool = True) -> None:
        """Show a notice for a few seconds."""
        ...

    def show_attach_screen(self, name: str) -> None:
        """Go to an attach screen."""
        ...

    def ask(self, question: str, lines: Sequence[str], verb: str, then: Callable[[], None]) -> None:
        """Ask before an action, and do it if the answer is yes."""
        ...


class ProbeLoader(Protocol):
    """Puts the probe into processes that have none."""

    def program(self, pid: int, error: GputuiError) -> str:
        """What a process runs, if `error` says that only the probe is missing; raises GputuiError otherwise."""
        ...

    def question(self, programs: dict[int, str]) -> list[str]:
        """What to ask before the probe is put into all of these processes."""
        ...

    def put_in(self, pid: int, tell: Callable[[str], object]) -> None:
        """Put the probe in and wait until it answers, in any thread; raises GputuiError."""
        ...


class Inquirer(Protocol):
    """Asks NCCL in a process for all ranks of its job."""

    def question(self, pids: Iterable[int]) -> Question:
        """Which of these processes to ask, and what to say before; raises GputuiError where none may be asked."""
        ...

    def inquire(self, pid: int, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        """Ask, in any thread, and tell after each answer what is known; ends early once `is_left` is set."""
        ...

    def ranks_here(self, pid: int) -> int:
        """How many ranks of the job of a process are on this machine."""
        ...

    def compare(self, pid: int, problem: str, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        """Tell at which lines the ranks on this machine are; `problem` is why NCCL was not asked."""
        ...


class Attached:
    """The attached processes. Each feed delivers in its own thread; the application's thread takes what it delivers.

    Messages that feeds cause go to the application, which calls `take_moments` or `take_timeline` for them.
    """

    def __init__(self, host: Host, open_feed: OpenFeed) -> None:
        self._host = host
        self._trees = TreeThread(self.hand_over)
        self._moments: SimpleQueue[TargetMoment] = SimpleQueue()
        self.targets = Targets(open_feed, self._trees.build)
        self.first_pids: tuple[int, ...] = ()
        """Processes that `start` attaches to."""
        self.first_screen = "memory"
        """The screen on which `start` shows the first of them."""
        self.first_action: ActionName | None = None
        """The action that `start` runs in each of `first_pids`; the user has confirmed it already."""
        self.first_notices: tuple[str, ...] = ()
        """Sentences that `start` shows."""
        self.loader: ProbeLoader | None = None
        """Puts the probe into a process without it; None where that is not offered."""
        self.inquirer: Inquirer | None = None
        """Asks NCCL; None where that is not offered."""
        self.server_page: Callable[[int], ServerPage] | None = None
        """Asks the server that a process belongs to for its metrics; raises `GputuiError`; None where not offered."""
        self.read_past: Callable[[float, float], Past] | None = None
        """Reads the record of this machine between two times; raises `GputuiError`; None where that is not offered."""
        self.is_replay = False
        """Whether gputui shows only a recording, without a monitor below it."""
        self.is_far = False
        """Whether the processes run on another machine, which no monitor here shows."""
        self.is_still = False
        """Whether gputui shows only a single moment, from a black box or a snapshot."""
        self.is_recording: Callable[[], bool] = bool
        """Whether the attached processes are being recorded into a file."""

    @property
    def has_monitor(self) -> bool:
        """Whether there is a monitor to go back to."""
        return not (self.is_replay or self.is_far)

    def start(self) -> None:
        """Attach to the first processes and show the first notices."""
        self.attach(*self.first_pids)
        for target in self.targets.all:
            if self.first_action is not None and isinstance(target.feed, ActionFeed):
                target.feed.run_action(self.first_action)
        for sentence in self.first_notices:
            self._host.say(sentence, is_error=False)

    def attach(self, *pids: int) -> None:
        """Attach to processes and show the first of them; say why one cannot be attached to."""
        unprepared: dict[int, str] = {}
        attached = [pid for pid in pids if self._is_attached(pid, unprepared)]
        if self.loader and unprepared:
            self._offer_probes(unprepared, self.loader)
        if attached:
            self.targets.select(attached[0])
            self._host.show_attach_screen(self.first_screen)
            self.first_screen = "memory"

    def replace(self, pid: int) -> None:
        """Attach to one process instead of all others, and show what the advice says of it."""
        self.targets.stop()
        self.first_screen = "why"
        self.attach(pid)

    def stop(self) -> None:
        """Close every feed, without waiting."""
        self.targets.stop()
        self._trees.stop()

    def _is_attached(self, pid: int, unprepared: dict[int, str]) -> bool:
        """Attach to a process. If that fails, add it to `unprepared` where the probe can be put in, or say why."""
        try:
            self.targets.attach(pid, partial(self._deliver, pid))
        except GputuiError as error:
            try:
                if self.loader is None:
                    raise
                unprepared[pid] = self.loader.program(pid, error)
            except GputuiError as refusal:
                self._host.say(str(refusal))
            return False
        return True

    def _offer_probes(self, programs: dict[int, str], loader: ProbeLoader) -> None:
        def load() -> None:
            for pid in programs:
                self._load_probe(pid)

        where = f"process {next(iter(programs))}" if len(programs) == 1 else f"{len(programs)} processes"
        self._host.ask(f"Put the probe into {where}?", loader.question(programs), "Put it in", load)

    def _load_probe(self, pid: int) -> None:
        self._host.say(f"The probe is being put into process {pid}.", is_error=False)
        Thread(target=self._put_in, args=(pid,), name=f"gputui-load-{pid}", daemon=True).start()

    def _put_in(self, pid: int) -> None:
        assert self.loader is not None
        try:
            self.loader.put_in(pid, lambda sentence: self.hand_over(partial(self._host.say, sentence, is_error=False)))
        except GputuiError as error:
            self.hand_over(partial(self._host.say, str(error)))
        else:
            self.hand_over(partial(self.attach, pid))

    def _deliver(self, pid: int, message: FeedMessage) -> None:
        if isinstance(message, Timeline):
            self._host.post_message(TimelineTaken(pid, message))
        else:
            self._moments.put(message)
            self._host.post_message(MomentsTaken())

    def build_step(self, trace: Trace, look: Look, take: Callable[[Step | None], None]) -> None:
        """Work out a recorded step in a thread of its own, and hand it to `take` in the application's thread."""

        def build() -> None:
            self.hand_over(partial(take, step_of(trace, look)))

        Thread(target=build, name="gputui-step", daemon=True).start()

    def hand_over(self, take: Callable[[], None]) -> bool:
        """Have `take` called in the application's thread, from any other."""
        return self._host.post_message(HandedOver(take))

    def take_moments(self) -> None:
        """Add every moment that was delivered: one message may stand for many, and the timeline must miss none."""
        while not self._moments.empty():
            gain = self.targets.take(self._moments.get())
            if gain:
                self._host.say(gain, is_error=False)

    def take_timeline(self, message: TimelineTaken) -> None:
        """Replace the timeline of a process that is replayed."""
        self.targets.take_all(message.pid, message.timeline)
