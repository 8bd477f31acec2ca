"""The process screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.errors import GputuiError
from gputui.explain.serving.words import page_words
from gputui.model.history import SPANS_S
from gputui.model.machine.process import Process, ProcessDetails
from gputui.model.machine.programs import is_of_server
from gputui.model.machine.secrets import mask_arguments
from gputui.model.machine.snapshot import Attention
from gputui.model.reading import value_of
from gputui.ui.bindings import COPY_BINDINGS, HIDDEN_FINDINGS_BINDING, SIGNAL_BINDINGS
from gputui.ui.drawing.line import Line, paragraph, text_of
from gputui.ui.drawing.monitor.findings import draw_own_findings
from gputui.ui.drawing.monitor.process_page import ENVIRONMENT, Shown, draw_process_page
from gputui.ui.drawing.monitor.processes import GONE
from gputui.ui.screens.base import SubScreen
from gputui.ui.screens.signals import choose_signal, confirm_signal
from gputui.ui.widgets.page import Page

if TYPE_CHECKING:
    from gputui.model.attached.serving import ServerPage
    from gputui.ui.attach.attached import Attached

NOT_READ_YET = "Reading the rest ..."
NOT_READ_PAUSED = "Readings are paused: p resumes them and reads the rest."
ASKED = "Asking the server ..."
NEVER_READ = "The process ended before the rest was read."


class ProcessScreen(SubScreen):
    """Everything about one process; when it ends, the last known state stays."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"process": "Process screen", "signal": "Signals"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "environment", "Environment", id="process.environment", tooltip="its environment variables"),
        Binding(
            "v", "secrets", "Secrets", show=False, id="process.secrets", tooltip="show keys and passwords, or mask them"
        ),
        *COPY_BINDINGS,
        Binding("a", "attach", "Attach", id="process.attach", tooltip="show its PyTorch memory"),
        Binding("m", "metrics", "Metrics", id="process.metrics", tooltip="ask its server for its own metrics"),
        Binding("z", "zoom", "Zoom", id="graph.zoom", tooltip="seconds per cell of the graphs"),
        replace(SIGNAL_BINDINGS[0], show=True),
        *SIGNAL_BINDINGS[1:],
        HIDDEN_FINDINGS_BINDING,
    ]

    def __init__(self, process: Process, *, at_environment: bool = False) -> None:
        super().__init__()
        self._process = process
        self._is_gone = False
        self._details: ProcessDetails | None = None
        self._shown = Shown(environment=at_environment)
        self._goes_to_environment = at_environment
        self._of_server: list[tuple[str, str]] = []
        """Sentences with roles: what the process's server has said of itself, or why it has not."""

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        """Redraw the page from the newest snapshot that has the process."""
        identity = self._process.identity
        processes = self.monitor.snapshot.processes.processes
        newest = next((process for process in processes if process.identity == identity), None)
        if self._is_gone != (newest is None):
            self._is_gone = newest is None
            self.refresh_bindings()
        self._process = newest or self._process
        details = self.monitor.snapshot.details
        if details is not None and details.identity == identity and not self._is_gone:
            self._details = details
        self.query_one(Page).redraw()
        if self._goes_to_environment and self._details is not None:
            self._goes_to_environment = False
            self._scroll_to_environment()

    def attention(self) -> Attention:
        """This process's details."""
        return Attention(process=self._process.identity)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be done to a process that has ended; with --readonly there are no signals."""
        if action in ("signal", "choose_signal"):
            return not self.monitor.state.is_readonly and not self._has_ended
        if action == "attach":
            return not self._has_ended
        if action == "metrics":
            is_offered = self.monitor.attached.server_page is not None and not self._has_ended
            return is_offered and is_of_server(value_of(self._process.command) or "")
        return super().check_action(action, parameters)

    def action_attach(self) -> None:
        self.monitor.attached.attach(self._process.pid)

    def action_metrics(self) -> None:
        """Ask the process's server for its metrics, in a thread of its own: that may take seconds."""
        attached, pid = self.monitor.attached, self._process.pid
        if attached.server_page:
            self._of_server = [(ASKED, "dim")]
            Thread(
                target=self._ask, args=(attached, attached.server_page, pid), name="gputui-page", daemon=True
            ).start()
            self.draw()

    def _ask(self, attached: Attached, server_page: Callable[[int], ServerPage], pid: int) -> None:
        try:
            sentences, role = page_words(server_page(pid)), "plain"
        except GputuiError as error:
            sentences, role = [str(error)], "fair"
        attached.hand_over(partial(self._take_page, sentences, role))

    def _take_page(self, sentences: Sequence[str], role: str) -> None:
        self._of_server = [(sentence, role) for sentence in sentences]
        if self.is_current:
            self.draw()

    def action_environment(self) -> None:
        """Show the environment and go to it, or hide it."""
        self._shown = self._shown._replace(environment=not self._shown.environment)
        self.draw()
        self._scroll_to_environment()

    def action_secrets(self) -> None:
        """Show the values that look like secrets, or mask them again."""
        self._shown = self._shown._replace(secrets=not self._shown.secrets)
        self.draw()

    def action_copy_identity(self) -> None:
        """Copy the PID."""
        self.monitor.copy("PID", str(self._process.pid))

    def action_copy_command(self) -> None:
        """Copy the command line as it is shown: with or without secrets."""
        arguments = value_of(self._details.command_line) if self._details else None
        words = arguments or (value_of(self._process.command) or "").split(" ")
        self.monitor.copy("command", " ".join(words if self._shown.secrets else mask_arguments(words)))

    @property
    def _has_ended(self) -> bool:
        return self._is_gone or self._process.state in GONE

    def _scroll_to_environment(self) -> None:
        self.query_one(Page).scroll_to_line(lambda line: text_of((line,)).startswith(ENVIRONMENT))

    def action_zoom(self) -> None:
        """The next resolution of the graphs."""
        self._shown = self._shown._replace(zoom=(self._shown.zoom + 1) % len(SPANS_S))
        self.draw()

    def action_signal(self, name: str) -> None:
        """Ask, then send a signal."""
        confirm_signal(self, name, (self._process,))

    def action_choose_signal(self) -> None:
        """Choose a signal, ask, then send it."""
        choose_signal(self, (self._process,))

    def _draw_page(self, width: int, height: int) -> list[Line]:
        monitor = self.monitor
        lines = draw_process_page(
            self._process,
            self._details or self._why_without_details(),
            monitor.snapshot,
            monitor.history,
            (width, height),
            monitor.appearance,
            self._shown,
        )
        findings = [finding for finding in monitor.snapshot.findings if finding.process == self._process.identity]
        lines[1:1] = draw_own_findings(findings, monitor.snapshot.time, width)
        for sentence, role in reversed(self._of_server):
            lines[1:1] = paragraph(sentence, width, role)
        if self._is_gone:
            gone = "This process has ended or no longer holds device memory; these are its last readings."
            lines.insert(1, ((gone, "fair"),))
        return lines

    def _why_without_details(self) -> str:
        if self._is_gone:
            return NEVER_READ
        return NOT_READ_PAUSED if self.monitor.state.is_paused else NOT_READ_YET
