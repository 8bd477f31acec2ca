"""Recording and replaying on a terminal."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.sources.files.recording.index import NoRecordingError
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.shipped import SHIPPED
from tests.attach.children import Child, Python
from tests.terminal.conftest import GPUTUI, Open


def test_a_replay_opens_plays_and_restores_the_terminal(terminal: Open) -> None:
    session = terminal(f"exec {GPUTUI} replay {shlex.quote(str(SHIPPED))}", size=(120, 40))
    session.wait_for("train.py")
    session.send(")")
    session.wait_for("END OF REPLAY")
    session.wait_for("OutOfMemoryError")
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_a_file_that_is_not_a_recording_is_an_error_before_drawing(terminal: Open, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    session = terminal(f"exec {GPUTUI} replay {path}", size=(200, 24))
    session.wait_for("is not a file that gputui opens. gputui opens black boxes (")
    assert session.end() == 1
    assert session.left_behind() == []


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """A program with a probe; its folder's path is short because Unix socket paths are limited in length."""
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        python = Python(sys.executable, tmp_path, {})
        child = python.start("import gputui.probe, time\nprint('ready', flush=True)\ntime.sleep(1000)")
        child.expect("ready")
        yield child
        python.end()


def has_mark(path: Path) -> bool:
    """Whether a recording in progress already has a mark."""
    try:
        return Recording(path).next_mark(0.0) is not None
    except NoRecordingError:
        return False


def test_an_attach_session_and_its_marks_are_recorded(terminal: Open, program: Child, tmp_path: Path) -> None:
    path = tmp_path / "job.gputui"
    command = f"exec {GPUTUI} attach {program.pid} --record {path}"
    session = terminal(command, size=(120, 40), XDG_RUNTIME_DIR=os.environ["XDG_RUNTIME_DIR"])
    session.wait_for("● REC")
    session.send("m")
    session.wait_for("mark 1 is set")
    session.wait(lambda: has_mark(path), "the mark in the file")
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []
    recording = Recording(path)
    assert list(recording.greetings) == [program.pid]
    assert recording.next_mark(0.0) is not None
    assert recording.notices == ()
