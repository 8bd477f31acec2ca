"""The archive: sums over a week that a simulation knows, rows that are joined, a writer that is killed, a full disk."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.archive.report import Report, past, report
from gputui.archive.shares import device_times
from gputui.archive.store import DETAILED_S, KEPT_S, Archive, open_to_read
from gputui.cli import main
from gputui.commands.machine.record import keep
from gputui.errors import GputuiError
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Process
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Reading
from gputui.units import GIB
from tests.conftest import ROOT, FakeGpus
from tests.scale import scaled
from tests.ui import scenes

DAY_S = 86400
STEP_S = 300.0
HERE = Path(__file__).resolve().parent
KILLED, DATA = HERE / "programs" / "killed.py", HERE / "data"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path / "machine.db")
    yield made
    made.close()


def read(path: Path, begin: float = 0.0, end: float = 1e12, user: str = "") -> Report:
    database = open_to_read(path / "machine.db")
    try:
        return report(database, begin, end, user)
    finally:
        database.close()


def held(pid: int, index: int, user: str, job: str | None, gib: float, sm: int) -> Process:
    use = scenes.use(index, pid, gib, sm_percent=sm)
    return scenes.process(pid, index, user=user, owner=Owner(job=job), uses=(use,))


def look(time_s: float, utilization: tuple[int, ...], processes: tuple[Process, ...]) -> Snapshot:
    devices = tuple(scenes.device(place, gpu_utilization_percent=value) for place, value in enumerate(utilization))
    return scenes.snapshot(devices, processes)._replace(time=time_s)


class Week:
    """A simulated week of two GPUs and three users; it counts the hours itself."""

    def __init__(self, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.active, self.idle_held = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.device_active = Counter[str]()

    def looks(self) -> Iterator[Snapshot]:
        for number in range(1, int(7 * DAY_S / STEP_S) + 1):
            users = [self.random.choice(("ana", "ben", "")) for _ in range(2)]
            utilization = tuple(self.random.choice((0, 95)) if user else 0 for user in users)
            processes = [
                held(100 + place, place, user, "4711" if user == "ana" else None, 20.0, utilization[place])
                for place, user in enumerate(users)
                if user
            ]
            for place, user in enumerate(users):
                owner = (user, "4711" if user == "ana" else "")
                if user and utilization[place]:
                    self.active[owner] += 1
                    self.device_active[str(place)] += 1
                elif user:
                    self.idle_held[owner] += 1
            yield look(scenes.NOW + number * STEP_S, utilization, tuple(processes))


def test_a_report_over_a_week_is_what_the_simulation_knows_also_when_rows_are_joined(
    archive: Archive, tmp_path: Path
) -> None:
    week = Week()
    for snapshot in week.looks():
        archive.add(snapshot.time, device_times(snapshot, STEP_S), ())
    for now in (0.0, scenes.NOW + 9.5 * DAY_S):
        archive.roll_up(now)
        found = read(tmp_path)
        hours = STEP_S / 3600
        assert {(each.user, each.job): each.active for each in found.holders} == {
            owner: pytest.approx(count * hours) for owner, count in week.active.items()
        }
        assert {(each.user, each.job): each.idle_held for each in found.holders} == {
            owner: pytest.approx(count * hours) for owner, count in week.idle_held.items()
        }
        assert {each.device: each.active for each in found.devices} == {
            device: pytest.approx(count * hours) for device, count in week.device_active.items()
        }
        assert [each.watched for each in found.devices] == [pytest.approx(7 * 24)] * 2
        assert {each.most_held_bytes for each in found.holders} <= {20 * GIB, 40 * GIB}
    (mine,) = read(tmp_path, user="ana").holders
    assert (mine.user, mine.job) == ("ana", "4711")


def test_old_rows_are_joined_to_five_minutes_and_the_oldest_deleted(archive: Archive, tmp_path: Path) -> None:
    begin = int(scenes.NOW) // 300 * 300
    for second in range(10, 3610, 10):
        snapshot = look(begin + second, (95,), (held(100, 0, "ana", None, 20.0, 90),))
        archive.add(snapshot.time, device_times(snapshot, 10.0), ())
    before = read(tmp_path)
    archive.roll_up(begin + 3600 + DETAILED_S + 600)
    database = open_to_read(tmp_path / "machine.db")
    assert database.execute("SELECT count(*) FROM device_time").fetchone() == (13,)
    assert database.execute("SELECT count(*) FROM holder_time").fetchone() == (13,)
    database.close()
    assert read(tmp_path).holders == before.holders
    archive.roll_up(begin + 3600 + KEPT_S + 600)
    assert read(tmp_path).end == 0


def test_time_is_divided_among_those_who_computed(archive: Archive, tmp_path: Path) -> None:
    together = (
        held(100, 0, "ana", None, 20.0, 50),
        held(101, 0, "ben", None, 20.0, 50),
        held(102, 0, "eve", None, 20.0, 0),
    )
    archive.add(scenes.NOW, device_times(look(scenes.NOW, (95,), together), 3600.0), ())
    assert [(each.user, each.active) for each in read(tmp_path).holders] == [("ana", 0.5), ("ben", 0.5), ("eve", 0.0)]


@pytest.mark.parametrize(
    ("of_gpu", "of_instance", "expected"),
    [
        (38.0, scenes.UNSUPPORTED, (10.0, 0.0)),
        (scenes.UNSUPPORTED, 38.0, (10.0, 0.0)),
        (0.0, 0.0, (0.0, 10.0)),
        (scenes.UNSUPPORTED, scenes.UNSUPPORTED, (0.0, 0.0)),
    ],
    ids=["busy by its own SMs", "busy by an instance's", "idle", "nobody knows"],
)
def test_a_gpu_with_mig_which_has_no_utilisation_is_used_by_its_sms(
    of_gpu: Reading[float], of_instance: Reading[float], expected: tuple[float, float]
) -> None:
    gpu = scenes.device(0, gpu_utilization_percent=scenes.UNSUPPORTED, sm_active_percent=of_gpu)
    (instance,) = scenes.instances(0, 1)
    use = scenes.use(0, 100, 20.0, device=instance.key, sm_percent=scenes.UNSUPPORTED)
    devices = (gpu, instance._replace(sm_active_percent=of_instance))
    (time,) = device_times(scenes.snapshot(devices, (scenes.process(100, uses=(use,)),)), 10.0)
    assert (time.active_s, time.idle_held_s) == expected
    (share,) = time.shares
    assert (share.active_s, share.idle_held_s) == expected
    assert time.processes[0].is_active == bool(time.active_s)


def test_a_process_is_one_row_from_when_to_when_and_with_when_it_computed_last(
    archive: Archive, tmp_path: Path
) -> None:
    secret = scenes.process(101, 1, user="ben", command="python -u train.py --api-key=abc123secret")
    for second, sm in ((0, 90), (10, 90), (20, 0), (30, 0)):
        together = (held(100, 0, "ana", "4711", 20.0 + second, sm),)
        snapshot = look(scenes.NOW + second, (95 if sm else 0, 0), (*together, secret) if second < 20 else together)
        archive.add(snapshot.time, device_times(snapshot, 10.0), ())
    first, second = read(tmp_path).processes
    assert (first.device, first.pid, first.user, first.job) == ("0", 100, "ana", "4711")
    assert (first.since, first.until, first.active) == (scenes.NOW, scenes.NOW + 30, scenes.NOW + 10)
    assert first.held_bytes == 50 * GIB
    assert (second.user, second.until, second.active) == ("ben", scenes.NOW + 10, 0)
    assert "train.py" in second.command
    assert "abc123secret" not in second.command
    assert [each.pid for each in read(tmp_path, begin=scenes.NOW + 15).processes] == [100]


def test_an_hour_of_the_past_has_each_gpu_over_time_also_when_rows_are_joined(archive: Archive, tmp_path: Path) -> None:
    begin = int(scenes.NOW) // 3600 * 3600
    for number in range(1, 540):  # half an hour busy, with a gap, then idle
        if not 59 < number <= 120:
            percent = 90 if number < 180 else 0
            snapshot = look(begin + 10 * number, (percent, 0), (held(100, 0, "ana", None, 20.0, percent),))
            archive.add(snapshot.time, device_times(snapshot, 10.0), ())
    for now in (0.0, begin + 7200 + DETAILED_S):
        archive.roll_up(now)
        database = open_to_read(tmp_path / "machine.db")
        found = past(database, begin, begin + 3600)
        database.close()
        assert [gpu.label for gpu in found.gpus] == ["0", "1"]
        points = found.gpus[0].points(begin, begin + 3600, 6)
        assert points.pop(1) is None
        assert points == pytest.approx([90, 90, 0, 0, 0], abs=2)
        assert found.gpus[0].mean_percent == pytest.approx(90 * 2 / 5, abs=2)
        assert [process.pid for process in found.processes] == [100]


def test_findings_are_kept_with_their_times(archive: Archive, tmp_path: Path) -> None:
    watch = Watch()
    troubled = scenes.snapshot((scenes.device(0, ecc_uncorrected=2),))
    for second in (0, 10, 20):
        snapshot = troubled._replace(time=scenes.NOW + second)
        archive.add(snapshot.time, (), watch.take(snapshot, History()))
    archive.add(scenes.NOW + 30, device_times(look(scenes.NOW + 30, (0,), ()), 10.0), ())
    (finding,) = read(tmp_path).findings
    assert (finding.kind, finding.where) == ("ecc", "GPU 0")
    assert (finding.since, finding.until) == (scenes.NOW, scenes.NOW + 20)
    assert read(tmp_path, begin=scenes.NOW + 25).findings == []


MOMENTS = scaled(40, 5)
"""In how many lives `gputui record` is killed: 200 in the nightly run."""


@pytest.mark.long
def test_kill_9_in_the_middle_of_any_write_loses_the_last_ten_seconds_at_most(
    tmp_path: Path, fake_gpus: FakeGpus
) -> None:
    """The moments are counted in writes of the database, half of the last one is done."""
    random_numbers = random.Random(1)
    moments = [str(random_numbers.randrange(1, random_numbers.choice((30, 120, 600)))) for _ in range(MOMENTS)]
    environment = {**fake_gpus.environment, "PYTHONPATH": str(ROOT), "LD_PRELOAD": "libfaults.so"}
    command = [sys.executable, str(KILLED), str(tmp_path / "machine.db"), *moments]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    lives = [json.loads(line) for line in printed.splitlines()]
    assert len(lives) == MOMENTS
    newest, watched_s = 0, 0.0
    for life in lives:
        assert life["integrity"] == "ok", life
        last = life["first"] + 10 * (life["begun"] - 1)
        if life["newest"] != newest:  # this life has written a look, the last that it began or the one before
            assert life["newest"] in {last, last - 10}, life
            newest, watched_s = life["newest"], watched_s + life["newest"] - life["first"]
        else:
            assert life["begun"] <= 1, life
        assert life["watched_s"] == pytest.approx(watched_s), life
    assert newest > 10_000_000 + 1200, "no rows were joined"


def test_one_may_write_and_others_read_meanwhile(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(GputuiError, match="Another gputui records into"):
        Archive(tmp_path / "machine.db")
    reader = open_to_read(tmp_path / "machine.db")
    archive.add(scenes.NOW, device_times(look(scenes.NOW, (95,), ()), 10.0), ())
    assert report(reader, 0, 1e12).end == scenes.NOW
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("DELETE FROM device_time")
    reader.close()


def test_a_full_disk_is_said_once_and_recording_goes_on(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pages,) = archive._database.execute("PRAGMA page_count").fetchone()

    def looks() -> Iterator[Snapshot]:
        for number in range(1, 400):
            if number in {2, 300}:  # no room at all, then more
                room = pages if number == 2 else pages + 1000
                archive._database.execute(f"PRAGMA max_page_count = {room}")
            yield look(scenes.NOW + 10 * number, (95,) * 8, ())

    keep(archive, looks())
    assert capsys.readouterr().err.count("The record cannot be written: database or disk is full.") == 1
    assert read(tmp_path).end == scenes.NOW + 3990


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "There is no record of this machine at"),
        (b"not a database, but long enough to be one" * 30, "file is not a database"),
        (b"", "is not a record of gputui's"),
    ],
    ids=["no file", "another file", "an empty file"],
)
def test_a_file_that_is_no_record_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, sentence: str
) -> None:
    path = tmp_path / "machine.db"
    if content is not None:
        path.write_bytes(content)
    assert main(["report", "--file", str(path)]) == 1
    assert sentence in capsys.readouterr().err


def test_a_record_of_the_first_version_is_read_as_it_is_and_goes_on_being_written(tmp_path: Path) -> None:
    path = tmp_path / "machine.db"
    older = sqlite3.connect(path)
    older.executescript((DATA / "archive-1.sql").read_text())
    older.close()
    before = read(tmp_path)
    assert [(each.user, each.job, each.active) for each in before.holders] == [("ana", "4711", 1.0)]
    assert (before.processes, len(before.findings)) == ([], 1)
    writer = Archive(path)
    snapshot = look(scenes.NOW + 3600, (95,), (held(100, 0, "ana", "4711", 20.0, 90),))
    writer.add(snapshot.time, device_times(snapshot, 3600.0), ())
    writer.close()
    after = read(tmp_path)
    assert [each.active for each in after.holders] == [2.0]
    assert [each.pid for each in after.processes] == [100]


def test_a_record_of_a_newer_gputui_is_left_alone(archive: Archive, tmp_path: Path) -> None:
    archive._database.execute("PRAGMA user_version = 99")
    with pytest.raises(GputuiError, match="written by a newer gputui"):
        open_to_read(tmp_path / "machine.db")


def test_the_command_prints_users_devices_and_findings(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time()
    watch = Watch()
    for second in range(0, 3600, 600):
        snapshot = look(now - 3600 + second, (95, 0), (held(100, 0, "ana", "4711", 20.0, 90),))
        troubled = scenes.snapshot((scenes.device(0, ecc_uncorrected=2),))._replace(time=snapshot.time)
        archive.add(snapshot.time, device_times(snapshot, 600.0), watch.take(troubled, History()))
    assert main(["report", "--file", str(tmp_path / "machine.db")]) == 0
    printed = capsys.readouterr().out
    for words in ("ana   4711   1.0 h", "GPU 0  2 memory errors", "1.0 h   0.0 h"):
        assert " ".join(words.split()) in " ".join(printed.split())
    assert main(["report", "--file", str(tmp_path / "machine.db"), "--json", "--user", "ben"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["users"]) == ("gputui.report/1", [])
    assert main(["report", "--since", "1s", "--file", str(tmp_path / "machine.db")]) == 0
    assert capsys.readouterr().out == "Nothing was recorded in this time.\n"
