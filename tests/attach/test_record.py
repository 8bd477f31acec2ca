"""Recordings of real programs: replay, a killed recorder, the reason why a program ended, and refused files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.commands.attach.lines import summary_of
from gputui.explain.moment.disconnects import sentence
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Disconnect, DisconnectKind
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.files.recording.index import NoRecordingError
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.recorder import FileRecorder
from gputui.sources.files.recording.story import Story
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python, wait_until
from tests.attach.small_training import TRAINING

STEPS = """
    import time, gputui.probe
    kept = []
    for number in range(10**9):
        kept.append(torch.zeros(1000, number % 50 + 1, device=device))
        gputui.probe.mark(f"step {number}")
        time.sleep(0.05)
"""
OUT_OF_MEMORY = """
    input()
    torch.empty(1 << 50, device=device)
"""


def moments_in(path: Path) -> list[TargetMoment]:
    return list(Story(Recording(path)).moments())


def gputui(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputui", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def recorder(python: Python, child: Child, path: Path) -> Child:
    """`gputui attach PID --record FILE`, without a terminal."""
    command = [sys.executable, "-m", "gputui", "attach", str(child.pid), "--record", str(path)]
    return python.run(command, LD_PRELOAD="")


def test_replayed_moments_equal_the_live_ones(torch_python: Python, tmp_path: Path) -> None:
    child = torch_python.fork(TRAINING + STEPS)
    child.expect("ready")
    path = tmp_path / "job.gputui"
    file_recorder = FileRecorder(str(path))
    live: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, live.append, 0.1, file_recorder)
    feed.start()
    wait_until(lambda: len({moment.look_time for moment in live}) > 3 and len(live) > 12, "several looks")
    child.process.send_signal(signal.SIGKILL)
    wait_until(lambda: live[-1].ended, "the end")
    file_recorder.close()
    assert moments_in(path) == live
    assert live[-1].ended == Disconnect(DisconnectKind.SIGKILL)
    assert len(live[-1].marks) > 3


def test_what_a_recorder_has_written_when_it_is_killed_can_be_read(torch_python: Python, tmp_path: Path) -> None:
    child = torch_python.fork(TRAINING + STEPS)
    child.expect("ready")
    path = tmp_path / "job.gputui"
    viewer = recorder(torch_python, child, path)
    lines = [viewer.expect("") for _ in range(5)]
    wait_until(lambda: any(lines[-1] in summary_of(moment) for moment in moments_in(path)), "the last line in the file")
    viewer.process.send_signal(signal.SIGKILL)
    viewer.ended()
    shown = gputui("replay", str(path))
    assert shown.returncode == 0
    replayed = iter(shown.stdout.splitlines())
    assert all(line in replayed for line in lines)  # in this order; on a busy machine not each moment is printed
    assert "Traceback" not in shown.stderr


def test_recording_also_prints_lines_and_keeps_the_error_that_ended_the_program(
    torch_python: Python, tmp_path: Path
) -> None:
    child = torch_python.fork(TRAINING + OUT_OF_MEMORY, LANG="C")
    device = child.expect("ready")
    path = tmp_path / "job.gputui"
    viewer = recorder(torch_python, child, path)
    viewer.expect(f"{child.pid}  ")
    wait_until(lambda: device != "cuda" or has_layout_in(path), "a look in the file")
    child.say("go")
    assert viewer.ended() == 0
    error = "OutOfMemoryError: CUDA out of memory" if device == "cuda" else "RuntimeError: "
    assert f"Process {child.pid} ended with an error: {error}" in viewer.errors
    shown = gputui("replay", str(path))
    assert f"Process {child.pid} ended with an error: {error}" in shown.stdout
    last = moments_in(path)[-1]
    assert last.ended.kind is DisconnectKind.ERROR
    assert error in last.ended.detail
    if device == "cuda":
        assert last.devices[0].statistics.num_ooms == 1
        assert has_layout(last)


def has_layout_in(path: Path) -> bool:
    try:
        return any(has_layout(moment) for moment in moments_in(path))
    except NoRecordingError:  # nothing is written yet
        return False


def has_layout(moment: TargetMoment) -> bool:
    return bool(moment.devices) and moment.devices[0].layout is not None


ENDS = {
    "at its end": ("", None, "has ended."),
    "by sys.exit": ("sys.exit(3)", None, "has ended."),
    "by an exception": (
        "raise ValueError('the loss is NaN')",
        None,
        "ended with an error: ValueError: the loss is NaN",
    ),
    "by an exception whose str() fails": (
        "class Odd(Exception):\n    def __str__(self): raise KeyError\nraise Odd()", None, "ended with an error: Odd",
    ),
    "by Ctrl-C": (  # short sleeps, because a signal just before a long sleep would only be handled after it
        "for _ in range(100): time.sleep(1)", signal.SIGINT, "ended with an error: KeyboardInterrupt",
    ),
    "by SIGTERM": ("time.sleep(100)", signal.SIGTERM, "was ended by SIGTERM."),
    "by SIGKILL": ("time.sleep(100)", signal.SIGKILL, "was killed by SIGKILL. The kernel also sends it"),
    "by a crash": ("import ctypes; ctypes.string_at(0)", None, "was ended by SIGSEGV."),
    "by os._exit": ("import os; os._exit(4)", None, "exited with status 4 without shutting Python down (os._exit)."),
    "only its probe": ("gputui.probe.stop(); time.sleep(100)", None, "has stopped its probe and continues without"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_reason_why_the_program_ended_is_reported(python: Python, name: str) -> None:
    code, number, words = ENDS[name]
    start = "import gputui.probe, sys, time\nprint('ready', flush=True)\ninput()\nprint('going', flush=True)\n"
    child = python.start(start + code)
    child.expect("ready")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, 0.1)
    feed.start()
    wait_until(lambda: moments, "counters")
    child.say("go")
    child.expect("going")
    if number:
        child.process.send_signal(number)
    wait_until(lambda: moments[-1].ended, "the end")
    assert sentence(child.pid, moments[-1].ended).startswith(f"Process {child.pid} {words}")


def test_a_process_already_reaped_by_its_parent_has_vanished(python: Python) -> None:
    child = python.start("import gputui.probe\nprint('ready', flush=True)\ninput()")
    child.expect("ready")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, 0.1)
    child.process.kill()
    child.ended()
    feed.start()
    wait_until(lambda: moments, "the end")
    assert moments[-1].ended == Disconnect(DisconnectKind.VANISHED)


REFUSED = {
    "a file with content": (lambda path: path.write_text("my thesis"), "is not empty, and a recording"),
    "a folder": (lambda path: path.mkdir(), "cannot be written: Is a directory"),
    "no such folder": (lambda path: None, "cannot be written: No such file or directory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_existing_file_is_never_overwritten(python: Python, tmp_path: Path, name: str) -> None:
    child = python.start(FOR_EVER_ALONE)
    child.expect("ready")
    prepare, words = REFUSED[name]
    path = tmp_path / ("nowhere/file" if name == "no such folder" else "file")
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    done = gputui("attach", str(child.pid), "--record", str(path))
    assert done.returncode == 1
    assert f"{path} {words}" in done.stderr
    assert "Name another file for --record" in done.stderr
    assert (path.read_bytes() if path.is_file() else None) == before


FOR_EVER_ALONE = "import gputui.probe, time\nprint('ready', flush=True)\ntime.sleep(1000)"


def test_two_recordings_do_not_share_a_file(python: Python, tmp_path: Path) -> None:
    path = tmp_path / "file"
    first = FileRecorder(str(path))
    done = gputui("attach", str(python_pid(python)), "--record", str(path))
    assert done.returncode == 1
    assert "is being written by another recording" in done.stderr
    first.close()


def python_pid(python: Python) -> int:
    child = python.start(FOR_EVER_ALONE)
    child.expect("ready")
    return child.pid


def test_no_file_is_created_if_attaching_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    done = gputui("attach", str(os.getpid()), "--record", str(path))
    assert (done.returncode, path.exists()) == (1, False)
    for arguments in (["--record", str(path)], [str(os.getpid()), "--once", "--record", str(path)]):
        done = gputui("attach", *arguments)
        assert (done.returncode, path.exists()) == (2, False), done.stderr


def test_a_full_disk_stops_only_the_recording(torch_python: Python, tmp_path: Path) -> None:
    child = torch_python.fork(TRAINING + STEPS)
    child.expect("ready")
    path = tmp_path / "job.gputui"
    file_recorder = FileRecorder(str(path))
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, 0.1, file_recorder)
    feed.start()
    wait_until(lambda: path.stat().st_size > 1000, "the first chunks")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        wait_until(lambda: file_recorder.problem, "a write that fails")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    since = len(moments)
    wait_until(lambda: len(moments) > since + 3, "more moments")
    notice = f"The recording has stopped: {path} cannot be written: File too large. What was recorded so far is kept."
    assert moments[-1].problems[-1].text == notice
    assert not file_recorder.is_recording
    feed.stop()
    file_recorder.close()
    replayed = moments_in(path)
    assert 0 < len(replayed) < len(moments)
    assert replayed[0].devices == moments[0].devices


def test_a_file_that_takes_nothing_is_refused_at_once(python: Python, tmp_path: Path) -> None:
    """As on a full disk: the kernel lets this program write no byte into a file."""
    words = [sys.executable, "-m", "gputui", "attach", str(python_pid(python)), "--record", str(tmp_path / "job")]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert f"{tmp_path / 'job'} cannot be written: File too large." in done.stderr
