"""Ctrl-Z and `fg` in a shell with job control, and stops that come without a warning."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.terminal.conftest import GPUTUI, Open
from tests.terminal.pty_session import PtySession

TAKE = b"\x1b[?1004h"
INTERRUPTED = """
import os, signal, sys
from queue import Queue
from textual.drivers import _writer_thread
from gputui.cli import main

class InterruptedQueue(Queue):
    written = 0

    def _put(self, item):  # with the lock in hand
        InterruptedQueue.written += 1
        if MOMENT:
            os.kill(os.getpid(), signal.SIGCONT)
        super()._put(item)

_writer_thread.Queue = InterruptedQueue
sys.exit(main(["--demo"]))
"""
SHELL = "exec bash --norc --noprofile -i"


def shell(terminal: Open) -> PtySession:
    session = terminal(SHELL, PS1="ready> ")
    session.wait_for("ready>")
    return session


def interrupted(terminal: Open, folder: Path, moment: str) -> PtySession:
    """The demonstration, which gets SIGCONT whenever `moment` is true while it writes."""
    script = folder / "interrupted.py"
    script.write_text(INTERRUPTED.replace("MOMENT", moment))
    return terminal(f"exec {sys.executable} {script}")


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(terminal: Open) -> None:
    session = shell(terminal)
    session.send(f"{GPUTUI} --demo\n")
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("Stopped")
    assert not session.modes[1049]
    assert session.modes[25]
    session.send("echo be''tween\n")
    session.wait_for("between")
    session.screen.reset()
    session.send("fg\n")
    session.wait_for("Help")  # the whole screen is drawn again, down to the last line
    assert session.text.startswith(" gputui DEMONSTRATION")
    session.send("q")
    session.wait(lambda: not session.modes[1049])
    session.send("exit $?\n")
    assert session.end() == 0
    assert session.left_behind() == []


def test_a_program_around_it_is_suspended_with_it(terminal: Open) -> None:
    """`uv run gputui`: the shell waits for uv."""
    session = shell(terminal)
    session.send(f"sh -c '{GPUTUI} --demo; exit $?'\n")
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("Stopped")
    session.screen.reset()
    session.send("fg\n")
    session.wait_for("Help")
    session.send("q")
    session.wait(lambda: not session.modes[1049])
    session.send("exit $?\n")
    assert session.end() == 0
    assert session.left_behind() == []


def test_in_the_background_it_waits_for_the_foreground(terminal: Open) -> None:
    session = shell(terminal)
    session.send(f"{GPUTUI} --demo\n")
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("Stopped")
    session.send("bg; echo in the ba''ck\n")
    session.wait_for("in the back")
    session.screen.reset()
    session.send("fg\n")
    session.wait_for("Help")
    session.send("?")
    session.wait_for("app.help")
    session.send("\x03")
    session.wait(lambda: not session.modes[1049])
    session.send("exit $?\n")
    assert session.end() == 0
    assert session.left_behind() == []


def test_after_sigstop_and_sigcont_it_draws_and_leaves_everything_as_found(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    session.kill(signal.SIGSTOP)
    session.wait(lambda: state_of(session) == "T")
    session.screen.reset()
    session.kill(signal.SIGCONT)
    session.wait_for("Help")
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_a_signal_that_comes_in_the_middle_of_writing_waits_for_its_end(terminal: Open, tmp_path: Path) -> None:
    """A terminal that goes away sends SIGCONT too: what answers it needs the lock that is held then."""
    session = interrupted(terminal, tmp_path, "InterruptedQueue.written == 20")
    session.wait(lambda: session.output.count(TAKE) == 2, "the terminal, taken anew")
    session.wait_for("Help")
    session.send("?")
    session.wait_for("app.help")
    session.send("\x03")
    assert session.end() == 0
    assert session.left_behind() == []


def test_continued_at_its_end_it_does_not_take_the_terminal_again(terminal: Open, tmp_path: Path) -> None:
    session = interrupted(terminal, tmp_path, r"item == '\x1b[?1049l'")
    session.wait_for("Help")
    session.send("q")
    assert session.end() == 0
    assert session.output.count(TAKE) == 1
    assert session.left_behind() == []


def test_without_a_shell_it_does_not_suspend(terminal: Open) -> None:
    """As in `ssh -t node gputui`: nobody could ever continue it."""
    session = terminal()
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("no shell to suspend to")
    assert state_of(session) != "T"


def state_of(session: PtySession) -> str:
    """The letter by which the kernel tells the state of the program, T for a stopped one."""
    return Path(f"/proc/{session.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
