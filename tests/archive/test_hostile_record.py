"""A record that somebody else has made, or a place that they have prepared for one, ends in a sentence at worst."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gputui.archive import store
from gputui.archive.idle import idle_since
from gputui.archive.report import past
from gputui.archive.shares import device_times
from gputui.archive.store import Archive, file_to_write, reading
from gputui.cli import main
from gputui.errors import GputuiError
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from tests.archive.test_archive import held, look
from tests.conftest import ROOT
from tests.ui import scenes

ODD = {
    "text": "x\x1b[2Jy",
    "bytes": b"\xff\x00",
    "nothing": None,
    "huge": 1e300,
    "infinite": float("inf"),
    "largest": 2**63 - 1,
    "negative": -(2**63),
}


def make_record(path: Path) -> None:
    archive = Archive(path)
    snapshot = look(scenes.NOW, (95, 0), (held(100, 0, "ana", "4711", 20.0, 90),))
    troubled = scenes.snapshot((scenes.device(0, ecc_uncorrected=2),))._replace(time=snapshot.time)
    archive.add(snapshot.time, device_times(snapshot, 10.0), Watch().take(troubled, History()))
    archive.close()


def columns(path: Path) -> Iterator[tuple[str, str]]:
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        yield from ((table, row[1]) for row in database.execute(f"PRAGMA table_info({table})").fetchall())
    database.close()


def read_all(path: Path) -> None:
    """As the report, the past and the first look of the monitor do."""
    with reading(path) as database:
        past(database, scenes.NOW - 3600, scenes.NOW + 3600)
    main(["report", "--since", "365d", "--file", str(path), "--json"])


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_value_of_another_kind_in_any_column_is_a_sentence(
    tmp_path: Path, odd: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: scenes.NOW + 60)
    good, path = tmp_path / "good.db", tmp_path / "machine.db"
    make_record(good)
    tried = list(columns(good))
    assert len(tried) > 30
    for table, column in tried:
        shutil.copy(good, path)
        database = sqlite3.connect(path)
        with suppress(sqlite3.IntegrityError):  # a key is a number in any case
            database.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (odd,))
        database.commit()
        database.close()
        idle_since(scenes.NOW + 5, str(path))
        with suppress(GputuiError):
            read_all(path)
        assert main(["report", "--since", "365d", "--file", str(path)]) in (0, 1), (table, column)
        printed = capsys.readouterr()
        assert "\x1b" not in printed.out + printed.err, (table, column)


OF_VERSION_1 = "DROP TABLE process; PRAGMA user_version = 1;"


@pytest.mark.parametrize("older", ["", OF_VERSION_1], ids=["read from the file", "brought up to date in memory"])
def test_a_table_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: str) -> None:
    path = tmp_path / "machine.db"
    make_record(path)
    database = sqlite3.connect(path)
    database.executescript(
        """
        DROP TABLE device_time;
        CREATE VIEW device_time AS WITH RECURSIVE endless(time) AS (SELECT 1 UNION ALL SELECT time + 1 FROM endless)
        SELECT time, 1 AS device, 1.0 AS span_s, 1.0 AS active_s, 0.0 AS idle_held_s, 1.0 AS utilization_percent,
        1 AS used_bytes FROM endless;
        """
        + older
    )
    database.close()
    monkeypatch.setattr(store, "READ_WITHIN_S", 0.0)
    with pytest.raises(GputuiError, match="cannot be read: interrupted"):
        read_all(path)


KINDS = {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/full"), "folder": Path.mkdir}


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_no_record_is_a_sentence(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.db"
    KINDS[kind](path)
    assert main(["record", "--file", str(path)]) == 1
    assert str(path) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


WITHOUT_ROOM = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    "from gputui.cli import main; sys.exit(main())"
)


def test_a_disk_without_room_for_a_record_is_a_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", WITHOUT_ROOM, "record", "--file", str(tmp_path / "machine.db")]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"gputui: {tmp_path / 'machine.db'} cannot be written: ")


@pytest.mark.root
def test_root_makes_no_record_in_another_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the HOME of the user who became root, who has put a link there."""
    victim, state = tmp_path / "of-root", tmp_path / "state"
    victim.mkdir()
    state.mkdir()
    (state / "gputui").symlink_to(victim)
    os.chown(state, 12345, 12345)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    with pytest.raises(GputuiError, match=r"machine\.db is in a folder of another user"):
        file_to_write(is_shared=False)
    assert list(victim.iterdir()) == []
