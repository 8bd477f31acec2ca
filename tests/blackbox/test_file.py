"""The file of a black box: written whole and within limits, read with every check, listed newest first."""

from __future__ import annotations

import json
import os
import stat
import zlib
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gputui import environment
from gputui.commands.files.black_box import run as run_listing
from gputui.errors import GputuiError
from gputui.model.attached.target import DisconnectKind
from gputui.model.attached.tensors import Category, Container
from gputui.probe.black_box import files
from gputui.protocol import black_boxes, frames
from gputui.sources.files import black_box
from gputui.sources.files.black_box import NoBlackBoxError, read
from gputui.sources.files.black_box_folder import folder_of, kept_files
from gputui.sources.files.recording.records import plain
from gputui.units import MIB
from tests.attach.command import gputui
from tests.blackbox.messages import FAILURE, by_columns, look, messages, write
from tests.explain.moments import Tensor, moment, row


def test_what_was_written_is_read(tmp_path: Path) -> None:
    box = read(write(tmp_path))
    assert (box.failure.requested_bytes, box.failure.stack[0].line) == (FAILURE["requested_bytes"], 12)
    assert box.moment.failure is box.failure
    assert (box.moment.file.kind, box.moment.file.name) == ("black box", next(tmp_path.iterdir()).name)
    assert (box.moment.greeting.rank, box.moment.host.pinned_bytes) == (3, 7)
    assert box.moment.look is not None
    assert box.moment.look.statistics == look().statistics
    assert (box.moment.ended, box.notices) == (None, ())


def test_the_end_of_the_program_is_added_to_its_last_box(tmp_path: Path) -> None:
    path = write(tmp_path)
    files.append(str(path), {"type": "ended", "is_exit": True, "error": "OutOfMemoryError: CUDA out of memory."})
    box = read(path)
    assert box.failure.message == "OutOfMemoryError: CUDA out of memory."
    assert box.moment.ended is not None
    assert box.moment.ended.kind is DisconnectKind.ERROR


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "folder")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.touch()
    paths = []
    for number in range(1, black_boxes.FILES_AT_MOST + 6):
        paths.append(write(tmp_path, number))
        os.utime(paths[-1], (number, number))
    assert sorted(path for path in paths if path.exists()) == sorted(paths[5:])
    assert other.exists()


def test_the_oldest_go_when_they_are_too_large(tmp_path: Path) -> None:
    first, second = write(tmp_path, 1), write(tmp_path, 2)
    for age, path in enumerate((second, first)):
        os.truncate(path, black_boxes.BYTES_AT_MOST // 2)
        os.utime(path, (100 - age, 100 - age))
    third = write(tmp_path, 3)
    assert (first.exists(), second.exists(), third.exists()) == (False, True, True)


def test_what_a_killed_process_left_unfinished_goes_after_an_hour(tmp_path: Path) -> None:
    old, new = (tmp_path / f".train-20261122-031500-{pid}-1.blackbox.unfinished" for pid in (1, 2))
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    write(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_file_that_cannot_be_written_whole_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(black_boxes, "BYTES_AT_MOST", 100)
    with pytest.raises(files.NotKeptError, match="keeps at most 100"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


NAMES = {
    "a script": ("train", "train-20261122-031500-7-1.blackbox"),
    "odd characters": ("my train/../№1", "my_train_.._1-20261122-031500-7-1.blackbox"),
    "nothing": ("", "python-20261122-031500-7-1.blackbox"),
    "a long name": ("x" * 300, f"{'x' * 40}-20261122-031500-7-1.blackbox"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_named_after_its_program(name: str) -> None:
    program, expected = NAMES[name]
    assert black_boxes.file_name(program, "20261122-031500", 7, 1) == expected
    assert black_boxes.is_name(expected)


FOLDERS = {
    "the variable": ({environment.BLACK_BOX: "/kept", "HOME": "/home/ana"}, "/kept"),
    "the state folder": ({"XDG_STATE_HOME": "/state", "HOME": "/home/ana"}, "/state/gputui"),
    "a relative state folder": ({"XDG_STATE_HOME": "state", "HOME": "/home/ana"}, "/home/ana/.local/state/gputui"),
    "the home": ({"HOME": "/home/ana"}, "/home/ana/.local/state/gputui"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folder_follows_the_environment(name: str) -> None:
    variables, folder = FOLDERS[name]
    assert folder_of(variables) == Path(folder)


def test_without_a_home_there_is_no_folder() -> None:
    with pytest.raises(GputuiError, match="HOME is not set"):
        folder_of({})


def refusal(path: Path) -> str:
    with pytest.raises(NoBlackBoxError) as error:
        read(path)
    return str(error.value)


def test_other_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {
        b"": "is not a black box",
        b"gputui recording 1\n": "is not a black box",
        b"gputui black box 2\n": "of a newer gputui",
        black_boxes.FIRST_LINE: "it has no out-of-memory error in it",
        black_boxes.FIRST_LINE + b"x" * 100: "is damaged: Error -3",
        black_boxes.FIRST_LINE + zlib.compress(b"GET /"): "not a frame of gputui",
        black_boxes.FIRST_LINE + zlib.compress(frames.frame(b"[]")): "not a message",
        black_boxes.FIRST_LINE + zlib.compress(frames.frame(b'{"type":"x"}') * 17): "more messages than a probe writes",
    }
    for content, words in contents.items():
        path.write_bytes(content)
        assert words in refusal(path)
    assert "cannot be read: No such file" in refusal(tmp_path / "missing")
    assert "cannot be read: Is a directory" in refusal(tmp_path)


def test_a_bomb_is_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(black_box, "MAX_CONTENT_BYTES", 20 * MIB)
    packer = zlib.compressobj(9)
    pieces = [black_boxes.FIRST_LINE, packer.compress(frames.header(frames.MAX_REPLY_BYTES))]
    pieces += [packer.compress(bytes(MIB)) for _ in range(64)]
    path = tmp_path / "bomb"
    path.write_bytes(b"".join([*pieces, packer.flush()]))
    assert path.stat().st_size < MIB
    assert "it inflates to more than a probe writes" in refusal(path)


def test_a_file_that_was_cut_or_changed_is_read_in_part_or_refused(tmp_path: Path) -> None:
    whole = write(tmp_path).read_bytes()
    path, random = tmp_path / "changed", Random(1)
    outcomes = set()
    for _ in range(300):
        data = bytearray(whole)
        if random.random() < 0.5:
            del data[random.randrange(len(data)) :]
        else:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        sentences = sentences_about(path)
        assert all(sentence.isprintable() for sentence in sentences)
        outcomes.add(len(sentences))
    assert 1 in outcomes
    assert outcomes <= {0, 1}


def sentences_about(path: Path) -> tuple[str, ...]:
    """The notices about a black box, or the sentence that refuses it."""
    try:
        return read(path).notices
    except NoBlackBoxError as error:
        return (str(error),)


def test_the_listing_has_the_newest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, at in ((1, 1000), (2, 3000), (3, 2000)):
        os.utime(write(tmp_path, number), (at, at))
    (tmp_path / "train-20261122-031500-7-9.blackbox").write_bytes(b"x")
    os.utime(tmp_path / "train-20261122-031500-7-9.blackbox", (1, 1))
    assert [file.path.stem.rpartition("-")[2] for file in kept_files(tmp_path)] == ["2", "3", "1", "9"]
    assert run_listing(["--dir", str(tmp_path)]) == 0
    first, *_, last = capsys.readouterr().out.split("\n\n")
    lines = first.splitlines()
    assert lines[0].endswith("  rank 3 of 8  python train.py")
    assert lines[1] == "    256 MiB asked for on device 0; model.weight held 2.0 GiB of 3.0 GiB"
    assert lines[2] == f"    gputui open {kept_files(tmp_path)[0].path}"
    assert "is not a black box" in last
    assert run_listing(["--dir", str(tmp_path), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["black_boxes"]
    assert entries[0]["top_holder"] == {"name": "model.weight", "bytes": 2048 * MIB}
    assert "not a black box" in entries[-1]["problem"]


def test_the_listing_names_the_likely_holder_of_memory_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_part = [Tensor(8, f"samples[{n}] (train.py:9 in step)") for n in range(8)]
    held = moment(row(*read_part, Tensor(2048, "", Category.UNATTRIBUTED))).look
    assert held is not None
    assert held.inventory is not None
    samples = Container(7, "samples", "train.py:9 in step", "", "list", 264)
    held = replace(held, inventory=replace(held.inventory, containers=(samples,)))
    parts = [*messages()[:-1], {"type": "look", **by_columns(plain(held))}]
    files.write(str(tmp_path), "train", 1, parts)
    assert run_listing(["--dir", str(tmp_path)]) == 0
    assert "; most likely samples held 2.0 GiB of " in capsys.readouterr().out


def test_a_file_in_the_home_is_listed_as_one_types_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "own" / "my files")
    for home, words in ((tmp_path, f"~/'own/my files/{path.name}'"), (tmp_path / "other", f"'{path}'")):
        monkeypatch.setenv("HOME", str(home))
        run_listing(["--dir", str(path.parent)])
        assert capsys.readouterr().out.splitlines()[2] == f"    gputui open {words}"


def test_without_boxes_the_listing_says_how_they_come_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_listing(["--dir", str(tmp_path / "missing")]) == 0
    assert "gputui run" in capsys.readouterr().out


def test_open_prints_a_report_and_a_document(tmp_path: Path) -> None:
    path = write(tmp_path)
    status, report, errors = gputui("open", str(path), "--once")
    assert (status, errors) == (0, "")
    assert "! Out of memory: 256 MiB asked for, 56.0 MiB more than was free." in report
    assert "Requested at ana/train.py:12 in step." in report
    status, document, _ = gputui("open", str(path), "--once", "--json")
    failure = json.loads(document)["failure"]
    assert (status, failure["requested_bytes"], failure["hostname"]) == (0, 256 * MIB, "node7")


def test_open_shows_the_error_of_a_box_that_lost_its_look(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    status, report, errors = gputui("open", str(path), "--once")
    assert status == 0
    assert "256 MiB asked for" in report
    assert "is damaged" in errors
