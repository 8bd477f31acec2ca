"""Since when a GPU is held and not used: what the record knows at the first look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.archive.idle import idle_since
from gputui.archive.shares import device_times
from gputui.archive.store import Archive
from gputui.cli import main
from gputui.model.machine.device import Device
from gputui.model.machine.snapshot import Attention
from gputui.once.run import read_machine
from gputui.sources.machine import LiveMachine
from tests.archive.test_archive import held, look
from tests.conftest import FakeGpus
from tests.hanging import wait_until
from tests.ui import scenes


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path / "machine.db")
    yield made
    made.close()


def test_a_gpu_that_is_held_and_not_used_is_known_to_be_so_since_before_gputui_started(
    archive: Archive, tmp_path: Path
) -> None:
    path, now = str(tmp_path / "machine.db"), scenes.NOW + 7200
    for number in range(720):
        used = 95 if number < 180 else 0  # GPU 1 is never used
        processes = (held(100, 0, "ana", None, 20.0, used), held(101, 1, "ben", None, 20.0, 0))
        snapshot = look(scenes.NOW + 10 * number, (used, 0), processes)
        archive.add(snapshot.time, device_times(snapshot, 10.0), ())
    assert idle_since(now, path) == {"GPU-00000000": scenes.NOW + 1800, "GPU-00000001": scenes.NOW}
    assert idle_since(now + 120, path) == {}  # nobody records any more
    assert idle_since(now, f"{path}.other") == {}
    archive.add(now, device_times(look(now, (95, 0), processes), 10.0), ())
    assert idle_since(now, path) == {"GPU-00000001": scenes.NOW}


def test_time_in_which_nobody_recorded_is_not_known_to_be_idle(archive: Archive, tmp_path: Path) -> None:
    for second in (0, 10, 7200):
        snapshot = look(scenes.NOW + second, (0,), (held(100, 0, "ana", None, 20.0, 0),))
        archive.add(snapshot.time, device_times(snapshot, 10.0), ())
    assert idle_since(scenes.NOW + 7200, str(tmp_path / "machine.db")) == {}


@pytest.fixture
def recorded(fake_gpus: FakeGpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A GPU of two with a process that holds memory and does nothing, for three hours by the user's record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fake_gpus.ghost(device=0, mib=20_000)
    snapshot = read_machine()
    archive = Archive(tmp_path / "gputui" / "machine.db")
    for ago_s in range(3 * 3600, -1, -300):
        archive.add(snapshot.time - ago_s, device_times(snapshot._replace(time=snapshot.time - ago_s), 300.0), ())
    yield snapshot.devices.devices[0]
    archive.close()


def test_the_first_looks_of_the_monitor_have_what_the_record_knows(recorded: Device) -> None:
    machine = LiveMachine()
    known: dict[str, float] = {}

    def has_read() -> bool:
        known.update(machine.look(Attention(), 1.0).idle_since)
        return bool(known)

    wait_until(has_read)
    machine.close()
    assert known.keys() == {recorded.key}


def test_one_look_says_who_left_a_gpu_idle(recorded: Device, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--once"]) == 0
    assert "Held and not used: somebody (PID" in capsys.readouterr().out
