"""A record that root keeps for all users of a machine, and which of two records is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gputui.archive import place
from gputui.archive.report import read_past
from gputui.archive.shares import device_times
from gputui.archive.store import Archive, file_to_write
from tests.archive.test_archive import look
from tests.sources.children import as_nobody
from tests.ui import scenes


@pytest.mark.root
def test_a_record_that_is_shared_is_read_by_others_also_when_nobody_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory(prefix="gputui-") as folder:  # pytest's own folders are closed to others
        Path(folder).chmod(0o755)
        monkeypatch.setattr(place, "SHARED", f"{folder}/record/machine.db")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
        writer = Archive(file_to_write(is_shared=True), is_shared=True)
        writer.add(scenes.NOW, device_times(look(scenes.NOW, (95,), ()), 10.0), ())
        assert as_nobody(lambda: read_past(scenes.NOW - 60, scenes.NOW).last) == scenes.NOW
        as_killed = shutil.copytree(Path(place.SHARED).parent, f"{folder}/killed")
        writer.close()
        assert as_nobody(lambda: read_past(scenes.NOW - 60, scenes.NOW).last) == scenes.NOW
        monkeypatch.setattr(place, "SHARED", f"{as_killed}/machine.db")
        assert Path(f"{place.SHARED}-wal").exists()
        assert as_nobody(lambda: read_past(scenes.NOW - 60, scenes.NOW).last) == scenes.NOW
        assert not as_nobody(lambda: os.access(place.SHARED, os.W_OK))


def test_of_two_records_the_one_that_was_written_last_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "SHARED", str(tmp_path / "shared.db"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = tmp_path / "gputui" / "machine.db"
    assert place.file_to_read(os.environ) == str(own)
    for written, path in ((1, own), (2, tmp_path / "shared.db"), (3, tmp_path / "gputui" / "machine.db-wal")):
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (written, written))
        assert place.file_to_read(os.environ) == str(path).removesuffix("-wal")
