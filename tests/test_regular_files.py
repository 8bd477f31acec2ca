"""Every file that gputui is told to open, or looks for, as a pipe, a device, a link and without end: a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attach.children import LIMIT_S, REPOSITORY

BLACK_BOX = "train-20261122-031500-4711-1.blackbox"
KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}-pipe"), path.symlink_to(f"{path}-pipe")),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
}


def python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def gputui(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command, in 2 GiB of address space."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); from gputui.cli import main"
    return python(f"{limited}; import sys; sys.exit(main(sys.argv[1:]))", *arguments, **variables)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_to_open(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "file")
    done = gputui("open", str(tmp_path / "file"), "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"gputui: {tmp_path}/file cannot be read: it is a pipe, a socket or a device, and no file."
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_black_box_in_a_folder(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / BLACK_BOX)
    done = gputui("black-box", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "it is a pipe, a socket or a device, and no file" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_file(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "file")
    done = gputui("--once", GPUTUI_CONFIG=str(tmp_path / "file"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be read: it is a pipe, a socket or a device, and no file. Make it readable" in done.stderr


def test_a_settings_file_without_end(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(8 << 30)
    done = gputui("--once", GPUTUI_CONFIG=str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot be read: it has more than 1024 KiB." in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_that_get_no_probe(tmp_path: Path, kind: str) -> None:
    (tmp_path / "gputui").mkdir()
    KINDS[kind](tmp_path / "gputui" / "never-attach")
    code = "from gputui.sources.probe import never_programs; never_programs.check(1, 'x')"
    done = python(code, XDG_STATE_HOME=str(tmp_path))
    assert done.stderr.endswith("never-attach cannot be read: it is a pipe, a socket or a device, and no file.\n")


@pytest.mark.root
def test_root_keeps_no_answer_in_another_users_folder(tmp_path: Path) -> None:
    victim = tmp_path / "of-root"
    victim.mkdir()
    state = tmp_path / "state"
    state.mkdir()
    (state / "gputui").symlink_to(victim)
    os.chown(state, 12345, 12345)
    code = "from gputui.sources.probe import never_programs; never_programs.refuse('* * * * * root sh /tmp/x')"
    done = python(code, XDG_STATE_HOME=str(state))
    assert done.stderr.endswith(
        "never-attach is in a folder of another user. Set HOME, or XDG_STATE_HOME, to a folder of yours.\n"
    )
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_is_not_written_to(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "file")
    code = "from gputui.sources.files.recording.recorder import FileRecorder; import sys; FileRecorder(sys.argv[1])"
    done = python(code, str(tmp_path / "file"))
    assert "file cannot be written: " in done.stderr
