"""Leaves the terminal to another program until that ends: gputui on a node, through ssh, or `gputui attach`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from enum import Enum

from textual.app import App, SuspendNotSupported

from gputui.own_descriptors import of_child
from gputui.ui.monitor import Monitor

INSTALLATIONS = ("uv tool install gputui", "pipx install gputui", "python3 -m pip install --user gputui")
"""Tried on the node in this order, until one works."""


class Ended(Enum):
    """How a program in the terminal ended."""

    WELL = "well"
    BADLY = "badly"
    """Its output stayed on the terminal until Enter."""
    NO_SSH = "no ssh"
    NO_TERMINAL = "no terminal"
    NOT_REACHED = "not reached"
    NOT_FOUND = "not found"


_BY_STATUS = {0: Ended.WELL, 127: Ended.NOT_FOUND, 255: Ended.NOT_REACHED}
SENTENCES = {
    Ended.NO_SSH: "There is no ssh on this machine: install OpenSSH's client, such as the package openssh-client.",
    Ended.NO_TERMINAL: "gputui cannot leave this terminal to another program.",
    Ended.NOT_REACHED: "ssh does not reach {0}, or the connection broke. Check that this works: ssh {0} true.",
    Ended.NOT_FOUND: "{0} has none of uv, pipx and python3 -m pip. Install gputui there by hand.",
}


def visit(monitor: Monitor, app: App[object], node: str, words: Sequence[str]) -> None:
    """Run a command, and say what went wrong; where the node has no gputui, install it after a question."""
    ended = in_terminal(app, words)
    if ended is Ended.NOT_FOUND:
        lines = ["On the node, the first of these that works is run:", *INSTALLATIONS]
        monitor.ask(f"{node} has no gputui. Install it there?", lines, "Install", lambda: _install(monitor, app, node))
    else:
        _tell(monitor, node, ended)


def _install(monitor: Monitor, app: App[object], node: str) -> None:
    ended = in_terminal(app, install_words(node))
    if ended is Ended.WELL:
        monitor.say(f"gputui is on {node} now: Enter goes there.", is_error=False)
    else:
        _tell(monitor, node, ended)


def _tell(monitor: Monitor, node: str, ended: Ended) -> None:
    if ended in SENTENCES:
        monitor.say(SENTENCES[ended].format(node))


def visit_words(node: str) -> list[str]:
    """The command that runs gputui on a node, with the user's own configuration of ssh."""
    return _on(node, "exec gputui")


def install_words(node: str) -> list[str]:
    """The command that installs gputui on a node, with the first of `INSTALLATIONS` that works there."""
    return _on(node, " || ".join(INSTALLATIONS))


def _on(node: str, command: str) -> list[str]:
    return ["ssh", "-t", "--", node, f"sh -c 'PATH=$PATH:$HOME/.local/bin; export PATH; {command}'"]


def in_terminal(app: App[object], words: Sequence[str]) -> Ended:
    """Run a command in this terminal; if it ends badly, wait for Enter, so that its error can be read."""
    try:
        with app.suspend():
            out, errors = of_child(sys.__stdout__), of_child(sys.__stderr__)
            status = subprocess.run(list(words), stdout=out, stderr=errors, check=False).returncode
            ended = _BY_STATUS.get(status, Ended.BADLY)
            if ended is Ended.BADLY:
                _await_enter()
            return ended
    except SuspendNotSupported:
        return Ended.NO_TERMINAL
    except OSError:
        return Ended.NO_SSH


def _await_enter() -> None:
    if sys.__stdout__ is not None and sys.__stdin__ is not None:
        sys.__stdout__.write("\nEnter goes back to the table. ")
        sys.__stdout__.flush()
        sys.__stdin__.readline()
