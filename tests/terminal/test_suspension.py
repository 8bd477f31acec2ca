"""Ctrl-Z and `fg` in a shell with job control, and SIGSTOP without warning."""

from __future__ import annotations

import re
import shlex
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

    def _put(self, item):  # called with the queue's lock held
        InterruptedQueue.written += 1
        if MOMENT:
            os.kill(os.getpid(), signal.SIGCONT)
        super()._put(item)

_writer_thread.Queue = InterruptedQueue
sys.exit(main(["--demo"]))
"""
JOB = re.compile(r"^job (\d+)\.", re.MULTILINE)
SHELL = "exec bash --norc --noprofile -i"


def shell(terminal: Open) -> PtySession:
    session = terminal(SHELL, PS1="ready> ")
    session.wait_for("ready>")
    return session


def interrupted(terminal: Open, folder: Path, moment: str) -> PtySession:
    """The demonstration, which gets SIGCONT during each write for which the expression `moment` is true."""
    script = folder / "interrupted.py"
    script.write_text(INTERRUPTED.replace("MOMENT", moment))
    return terminal(f"exec {shlex.quote(sys.executable)} {script}")


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


def test_ctrl_z_also_suspends_the_parent_that_runs_gputui(terminal: Open) -> None:
    """As with `uv run gputui`, where the shell waits for uv."""
    session = shell(terminal)
    session.send(f"sh -c {shlex.quote(f'{GPUTUI} --demo; exit $?')}\n")
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


def test_after_bg_the_monitor_waits_for_fg(terminal: Open) -> None:
    session = shell(terminal)
    session.send(f"{GPUTUI} --demo\n")
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("Stopped")
    session.send("bg; echo job $(jobs -p).\n")
    session.wait(lambda: bool(JOB.search(session.text)), "the number of the job")
    job = int(JOB.search(session.text)[1])
    session.wait(lambda: state_of(job) == "T", "the stop in the background")
    session.send("until [[ $(jobs -s) ]]; do sleep 0.1; done; echo kno''wn\n")  # it does not continue what still runs
    session.wait_for("known")
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


def test_it_redraws_after_sigstop_and_sigcont_and_restores_the_terminal(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    session.kill(signal.SIGSTOP)
    session.wait(lambda: state_of(session.process.pid) == "T")
    session.screen.reset()
    session.kill(signal.SIGCONT)
    session.wait_for("Help")
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_sigcont_during_a_write_is_handled_after_the_write(terminal: Open, tmp_path: Path) -> None:
    """A hang-up sends SIGCONT too, and its handler needs the lock that the write holds."""
    session = interrupted(terminal, tmp_path, "InterruptedQueue.written == 20")
    session.wait(lambda: session.output.count(TAKE) == 2, "the terminal to be taken again")
    session.wait_for("Help")
    session.send("?")
    session.wait_for("app.help")
    session.send("\x03")
    assert session.end() == 0
    assert session.left_behind() == []


def test_sigcont_during_exit_does_not_take_the_terminal_again(terminal: Open, tmp_path: Path) -> None:
    session = interrupted(terminal, tmp_path, r"item == '\x1b[?1049l'")
    session.wait_for("Help")
    session.send("q")
    assert session.end() == 0
    assert session.output.count(TAKE) == 1
    assert session.left_behind() == []


def test_ctrl_z_without_a_shell_does_not_suspend(terminal: Open) -> None:
    """As in `ssh -t node gputui`, where nothing could continue it."""
    session = terminal()
    session.wait_for("Help")
    session.send("\x1a")
    session.wait_for("no shell to suspend to")
    assert state_of(session.process.pid) != "T"


def state_of(pid: int) -> str:
    """The kernel's letter for a process's state; T means stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
