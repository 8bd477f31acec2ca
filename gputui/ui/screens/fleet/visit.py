"""Runs a program of the user's in the terminal, and comes back: ssh to a node, for what is shown there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from textual.app import App, SuspendNotSupported

from gputui.own_descriptors import of_child

_SSH_FAILED, _NOT_FOUND = 255, 127
NO_SSH = "There is no ssh on this machine: install OpenSSH's client, such as the package openssh-client."
NO_TERMINAL = "gputui cannot leave this terminal to another program."


def visit_words(node: str) -> list[str]:
    """The command that runs gputui on a node, with the user's own configuration of ssh."""
    command = "sh -c 'PATH=$PATH:$HOME/.local/bin; export PATH; exec gputui'"
    return ["ssh", "-t", "--", node, command]


def visit(app: App[object], node: str, words: Sequence[str]) -> str:
    """Run a command in this terminal until it ends; a sentence where it could not run, "" otherwise."""
    try:
        with app.suspend():
            out, errors = of_child(sys.__stdout__), of_child(sys.__stderr__)
            status = subprocess.run(list(words), stdout=out, stderr=errors, check=False).returncode
    except SuspendNotSupported:
        return NO_TERMINAL
    except OSError:
        return NO_SSH
    if status == _NOT_FOUND:
        return f"{node} has no gputui. Install it there: ssh {node} uv tool install gputui (or pipx install gputui)."
    if status == _SSH_FAILED:
        return f"ssh does not reach {node}, or the connection broke. Check that this works: ssh {node} true."
    return ""
