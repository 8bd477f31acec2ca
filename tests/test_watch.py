"""gputui watch: waits on fake GPUs without a screen, and ends with the finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gputui.cli import main
from gputui.commands.machine.watch import wait
from gputui.model.machine.device import Lost
from gputui.model.machine.snapshot import Snapshot
from tests.conftest import FakeGpus
from tests.hanging import HANGS_S
from tests.ui import scenes
from tests.ui.monitor import FakeMachine

WELL = scenes.snapshot(scenes.devices(2))
LOST = scenes.snapshot((scenes.device(0, lost=Lost("GPU is lost", "reboot")), scenes.device(1)))
ECC = scenes.snapshot((scenes.device(0, ecc_uncorrected=2), scenes.device(1)))


class Script(FakeMachine):
    """Shows one snapshot after the other, 10 s apart; the last one for ever."""

    def __init__(self, *snapshots: Snapshot) -> None:
        super().__init__(snapshots[0])
        self.script = snapshots

    def look(self, *arguments: object) -> Snapshot:
        self.looks += 1
        place = min(self.looks, len(self.script)) - 1
        return self.script[place]._replace(time=scenes.NOW + 12.0 * self.looks, number=self.looks)


class ScriptOverError(Exception):
    """Every snapshot was shown, and nothing has ended the wait."""


def kinds_found(*snapshots: Snapshot, until: tuple[str, ...] = ()) -> list[str]:
    """What ends the wait, at the latest when the script is over."""
    machine = Script(*snapshots)

    def pause(_: float) -> None:
        if machine.looks > len(snapshots):
            raise ScriptOverError

    try:
        found, _ = wait(machine, frozenset(until), None, 2.0, pause)
    except ScriptOverError:
        return []
    return [finding.kind for finding in found]


def test_a_problem_that_comes_ends_the_wait() -> None:
    assert kinds_found(WELL, WELL, LOST) == ["lost"]
    assert kinds_found(WELL, WELL, scenes.snapshot(scenes.devices(1))) == ["gone"]


def test_what_was_there_at_the_beginning_is_named_and_does_not_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert kinds_found(ECC, ECC) == []
    assert capsys.readouterr().err == "gputui: Already there: GPU 0: 2 memory errors that ECC could not correct\n"
    assert kinds_found(ECC, ECC, until=("ecc",)) == ["ecc"]


def test_only_the_kinds_that_are_waited_for_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert kinds_found(WELL, LOST, LOST, until=("gone", "xid")) == []
    assert capsys.readouterr().err == ""  # it was not there at the beginning
    assert kinds_found(WELL, LOST, LOST, until=("xid", "lost")) == ["lost"]


@contextmanager
def watching(fake_gpus: FakeGpus, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, once it has registered for events."""
    command = [sys.executable, "-m", "gputui", "watch", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=fake_gpus.environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_an_xid_ends_it_and_the_command_gets_the_finding(fake_gpus: FakeGpus) -> None:
    script = 'printf "%s\\n" "$1"; cat; exit 3'
    with watching(fake_gpus, "--until", "xid", "--json", "--exec", script) as process:
        while process.poll() is None and "nvmlEventSetWait_v2" not in fake_gpus.calls():
            os.sched_yield()
        fake_gpus.xid(1, 79)
        output, errors = process.communicate(timeout=HANGS_S)
    printed, title, given = output.splitlines()
    assert errors == ""
    assert process.returncode == 3
    assert title == "GPU 1: XID 79: the GPU has fallen off the bus"
    assert printed == given
    (finding,) = json.loads(printed)
    assert (finding["kind"], finding["device"], finding["weight"]) == ("xid", 1, "problem")


def test_time_that_is_over_without_a_finding_is_status_1(
    fake_gpus: FakeGpus, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--for", "1s"]) == 1
    assert capsys.readouterr() == ("", "gputui: Nothing was found in 1s.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--until gon", "There is no kind of finding 'gon'. Did you mean gone?"),
        ("--for ever", "--for should be a time from 1s to 365d, such as 30min or 8h."),
    ],
)
def test_a_wrong_option_is_a_sentence(capsys: pytest.CaptureFixture[str], arguments: str, sentence: str) -> None:
    assert main(["watch", *arguments.split()]) == 2
    assert capsys.readouterr().err == f"gputui: {sentence}\n"


def test_without_a_driver_it_says_so_at_once(fake_gpus: FakeGpus, capsys: pytest.CaptureFixture[str]) -> None:
    fake_gpus.fault("nvml*", error=9)
    assert main(["watch"]) == 1
    assert "driver is not loaded" in capsys.readouterr().err
