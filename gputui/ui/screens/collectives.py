"""What NCCL says of a job: the question before, and the screen with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from threading import Event, Thread
from typing import ClassVar, Union

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.errors import GputuiError
from gputui.explain.ranks.collectives import Compared, Findings, Suspect, findings_of
from gputui.model.collectives import Inquiry, Question
from gputui.ui.attach.attached import Attached, Inquirer
from gputui.ui.dialogs.confirm import Confirm
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.collectives import draw_communicator, draw_head, draw_suspect
from gputui.ui.monitor import Monitor
from gputui.ui.screens.base import MonitorScreen, SubScreen
from gputui.ui.screens.process import ProcessScreen
from gputui.ui.widgets.blocks import Blocks

NOT_OFFERED = "NCCL is asked only on this machine, outside of the demonstration, and not with --readonly."
NO_PROCESS = "No process is under the cursor: move the cursor to a rank."


def ask_collectives(screen: MonitorScreen, pids: Sequence[int]) -> None:
    """Find out in a thread whether NCCL may be asked in one of these processes, and then ask the user."""
    monitor = screen.monitor
    inquirer = monitor.attached.inquirer
    if inquirer is None or monitor.snapshot.is_demo:
        monitor.say(NOT_OFFERED)
    elif not pids:
        monitor.say(NO_PROCESS)
    else:
        arguments = (screen, monitor, inquirer, pids)
        Thread(target=_find_out, args=arguments, name="gputui-nccl-question", daemon=True).start()


def _find_out(screen: MonitorScreen, monitor: Monitor, inquirer: Inquirer, pids: Sequence[int]) -> None:
    """Ask the user, compare the ranks here instead, or say why not; runs in a thread, as /proc can take long."""
    try:
        question = inquirer.question(pids)
    except GputuiError as error:
        pid = next(iter(pids))
        instead = partial(monitor.say, str(error))
        if inquirer.ranks_here(pid) > 1:
            instead = partial(_compare, screen, pid, str(error))
        monitor.attached.hand_over(instead)
    else:
        monitor.attached.hand_over(partial(_confirm, screen, question))


def _confirm(screen: MonitorScreen, question: Question) -> None:
    if not screen.is_current:  # left meanwhile
        return

    def answered(is_sure: bool | None) -> None:  # noqa: FBT001 - Textual's callback
        if is_sure:
            screen.app.push_screen(CollectivesScreen(question.pid))

    title = f"Ask NCCL in process {question.pid} which rank is behind?"
    screen.app.push_screen(Confirm(title, question.sentences, "Ask", question.warning, wraps=True), answered)


def _compare(screen: MonitorScreen, pid: int, problem: str) -> None:
    if screen.is_current:
        screen.app.push_screen(CollectivesScreen(pid, problem))


class CollectivesScreen(SubScreen):
    """Asks NCCL when it opens; shows ranks that stand out, whose processes Enter opens, and then the communicators.

    With `problem`, which says why NCCL is not asked, it compares the lines at which this machine's ranks are instead.
    """

    AUTO_FOCUS: ClassVar[str] = "#collectives"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "c", "collectives", "Ask again", id="processes.collectives", tooltip="ask NCCL again, after a question"
        ),
    ]

    def __init__(self, pid: int, problem: str = "") -> None:
        super().__init__()
        self._inquiry = Inquiry(pid, problem=problem)
        self._findings = Findings("", (), ())
        self._is_left = Event()

    def compose_body(self) -> ComposeResult:
        yield Blocks[Union[Suspect, Compared]](self._draw_block, id="collectives")

    def on_mount(self) -> None:
        super().on_mount()
        attached = self.monitor.attached
        if attached.inquirer:
            arguments = (attached, attached.inquirer)
            Thread(target=self._inquire, args=arguments, name="gputui-nccl", daemon=True).start()

    def on_unmount(self) -> None:
        """Stop asking."""
        self._is_left.set()

    def _inquire(self, attached: Attached, inquirer: Inquirer) -> None:
        def tell(inquiry: Inquiry) -> None:
            attached.hand_over(partial(self._take, inquiry, findings_of(inquiry)))

        pid, problem = self._inquiry.pid, self._inquiry.problem
        if problem:
            inquirer.compare(pid, problem, tell, self._is_left)
        else:
            inquirer.inquire(pid, tell, self._is_left)

    def _take(self, inquiry: Inquiry, findings: Findings) -> None:
        """Show what is known now, unless the screen was left."""
        if self._is_left.is_set():
            return
        self._inquiry, self._findings = inquiry, findings
        self.update_from_monitor()
        if inquiry.is_over:  # ranks have come above what the cursor was on
            blocks = self.query_one("#collectives", Blocks)
            blocks.action_move(-blocks.count)

    def draw(self) -> None:
        """Hand what is known to the widget; the cursor stays on its rank or communicator."""
        found = self._findings
        self.query_one("#collectives", Blocks).set_blocks(
            (*found.suspects, *found.communicators),
            lambda width: draw_head(self._inquiry, found, width),
            key=lambda entry: entry.key if isinstance(entry, Suspect) else entry.communicator.key,
        )

    def _draw_block(self, entry: Suspect | Compared, width: int, is_current: bool) -> list[Line]:  # noqa: FBT001 - as the widget calls it
        if isinstance(entry, Suspect):
            return draw_suspect(entry, self._inquiry, width, is_current=is_current)
        return draw_communicator(entry, width, is_current=is_current)

    @on(Blocks.Chosen)
    def _chosen(self, message: Blocks.Chosen) -> None:
        entry = message.entry
        if not isinstance(entry, Suspect):
            return
        pid = self._inquiry.here.get(entry.place)
        process = next((each for each in self.monitor.snapshot.processes.processes if each.pid == pid), None)
        if process is None:
            where = "on another machine" if pid is None else "without a device here"
            self.monitor.say(f"Rank {entry.rank} runs {where}, which this monitor does not show.", is_error=False)
            return
        self.app.push_screen(ProcessScreen(process))

    def action_collectives(self) -> None:
        """Ask again, after the question."""
        if self._inquiry.is_over:
            ask_collectives(self, (self._inquiry.pid,))
