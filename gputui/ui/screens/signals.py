"""The questions before a signal is sent: which one, and whether to send it."""

from __future__ import annotations

from gputui.model.machine.process import Process
from gputui.model.machine.programs import program_of
from gputui.model.machine.signals import SIGNALS
from gputui.model.reading import value_of
from gputui.ui.dialogs.confirm import Confirm
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.line import printable
from gputui.ui.screens.base import MonitorScreen

KILL_WARNING = "It ends at once and saves nothing. SIGTERM lets a training program write its checkpoint."

NO_TARGET = "No process is under the cursor or tagged: move the cursor to a process, or tag some with Space."


def confirm_signal(screen: MonitorScreen, name: str, targets: tuple[Process, ...]) -> None:
    """Ask whether to send a signal to processes, and send it."""
    if not targets:
        screen.monitor.say(NO_TARGET)
        return
    subjects = [
        printable(f"{process.pid}  {value_of(process.user) or ''}  {program_of(value_of(process.command) or '')}")
        for process in targets
    ]
    whom = "this process" if len(targets) == 1 else f"these {len(targets)} processes"
    identities = [process.identity for process in targets]

    def answered(is_sure: bool | None) -> None:  # noqa: FBT001 - Textual's callback
        if is_sure:
            screen.monitor.send_signal(name, identities)

    warning = KILL_WARNING if name == "SIGKILL" else ""
    screen.app.push_screen(Confirm(f"Send {name} to {whom}?", subjects, f"Send {name}", warning), answered)


def choose_signal(screen: MonitorScreen, targets: tuple[Process, ...]) -> None:
    """Ask which signal to send to processes, then whether to send it."""
    if not targets:
        screen.monitor.say(NO_TARGET)
        return
    choices = [("", f"{name:<8} {meaning}", name) for _, name, meaning in SIGNALS]

    def chosen(name: str | None) -> None:
        if name:
            confirm_signal(screen, name, targets)

    screen.app.push_screen(Menu("Which signal?", choices), chosen)
