"""The file: it is read as written, truncation loses its end, and damage loses the chunk that it hit."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.errors import GputuiError
from gputui.model.moment import TargetMoment
from gputui.model.reading import Problem
from gputui.sources.recording import chunks
from gputui.sources.recording.chunks import FIRST_LINE, HEADER_BYTES, ChunkKind, write_chunk
from gputui.sources.recording.reader import Recording
from gputui.sources.recording.story import Story
from tests.explain.moments import GREETING
from tests.recording.made import BEGAN, Made, counters_at, job, look_at
from tests.scale import SCALE

JOB = job(12)
LIVE = JOB.moments[GREETING.pid]


def moments_in(path: Path) -> list[TargetMoment]:
    return list(Story(Recording(path)).moments())


def without_problems(moments: list[TargetMoment]) -> list[tuple]:
    """The moments without their problems, among which there may be a notice."""
    return [(moment.time, moment.devices, moment.marks, moment.host, moment.look_time) for moment in moments]


def test_replayed_moments_equal_the_live_ones(tmp_path):
    assert moments_in(JOB.write(tmp_path / "job")) == LIVE


STEPS = st.lists(st.sampled_from(["counters", "look", "same look", "look without tensors", "moment"]), max_size=60)


@settings(max_examples=20 * SCALE, deadline=None)
@given(STEPS)
def test_any_sequence_of_records_is_replayed(tmp_path_factory, steps):
    made = Made()
    look = look_at(BEGAN, [20, 30])
    for number, step in enumerate(steps):
        at = BEGAN + number
        if step == "counters":
            made.hear(at, counters_at(at, number))
        elif step == "look":
            look = look_at(at, [20 + number % 3] * (number % 5))
            made.hear(at, look)
        elif step == "same look":
            made.hear(at, look)
        elif step == "look without tensors":
            made.hear(at, replace(look_at(at, [20, 30, 40][: number % 4]), inventory=None))
        else:
            made.deliver(at)
    path = made.write(tmp_path_factory.mktemp("any") / "job")
    assert moments_in(path) == made.moments[GREETING.pid]


@settings(max_examples=50 * SCALE, deadline=None)
@given(st.integers(0, len(JOB.data)))
def test_a_truncated_file_keeps_what_precedes_the_cut(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "job"
    path.write_bytes(JOB.data[:length])
    try:
        seen = moments_in(path)
    except GputuiError:
        assert length < sum(map(len, JOB.chunks[:3])) + len(FIRST_LINE)
        return
    assert without_problems(seen) == without_problems(LIVE[: len(seen)])
    whole = sum(length >= len(FIRST_LINE) + sum(map(len, JOB.chunks[:n])) for n in range(1, len(JOB.chunks) + 1))
    assert len(seen) == sum(b'"surroundings"' in zlib.decompress(chunk[HEADER_BYTES:]) for chunk in JOB.chunks[:whole])


@settings(max_examples=60 * SCALE, deadline=None)
@given(st.integers(0, len(JOB.data) - 1), st.integers(1, 255))
def test_a_flipped_byte_loses_at_most_one_chunk(tmp_path_factory, place, bits):
    data = bytearray(JOB.data)
    data[place] ^= bits
    path = tmp_path_factory.mktemp("flipped") / "job"
    path.write_bytes(data)
    try:
        seen = moments_in(path)
    except GputuiError:
        assert place < len(FIRST_LINE) + sum(map(len, JOB.chunks[:2]))
        return
    assert len(seen) >= len(LIVE) - 1
    assert {moment.time for moment in seen} <= {moment.time for moment in LIVE}
    assert any("damaged" in notice or "cut off" in notice for notice in Recording(path).notices)


def test_a_damage_notice_has_the_times_around_it(tmp_path):
    middle = next(n for n, chunk in enumerate(JOB.chunks) if n > 20)
    data = FIRST_LINE + b"".join([*JOB.chunks[:middle], b"\0" * len(JOB.chunks[middle]), *JOB.chunks[middle + 1 :]])
    path = tmp_path / "job"
    path.write_bytes(data)
    (notice,) = Recording(path).notices
    assert notice.startswith("The recording is damaged between ")
    assert moments_in(path)[-1].problems == (Problem(notice),)


def test_after_a_lost_look_counters_remain_until_the_next_full_look(tmp_path):
    made = job(60)
    looks = [
        n
        for n, chunk in enumerate(made.chunks)
        if chunks.read_header(chunk).kind in (ChunkKind.LOOK, ChunkKind.CHANGED_LOOK)
    ]
    lost = looks[3]
    path = tmp_path / "job"
    path.write_bytes(FIRST_LINE + b"".join([*made.chunks[:lost], *made.chunks[lost + 1 :]]))
    seen, live = moments_in(path), made.moments[GREETING.pid]
    assert [moment.devices[0].statistics for moment in seen] == [moment.devices[0].statistics for moment in live]
    has_layout = [moment.devices[0].layout is not None for moment in seen]
    lost_from, found_again = has_layout.index(False, 3), len(has_layout) - has_layout[::-1].index(False)
    assert 0 < lost_from < found_again < len(seen)
    assert seen[found_again:] == live[found_again:]


BOMB = zlib.compress(b"[" + b" " * (chunks.MAX_CONTENT_BYTES + 10) + b"]", 9)
SENTENCES = {
    "an empty file": (b"", ["is empty.", "gputui attach PID --record FILE"]),
    "a file of another kind": (b"\x7fELF\2\1\1", ["is not a recording of gputui.", "gputui attach PID --record FILE"]),
    "a text file": (b"gputui recording one\n", ["is not a recording of gputui."]),
    "a newer version": (b"gputui recording 2\n", ["is a recording of version 2", "up to version 1", "Update gputui."]),
    "a version of very many digits": (b"gputui recording " + b"9" * 9000, ["recording"]),
    "half a first line": (FIRST_LINE[:5], ["holds nothing"]),
    "a first line alone": (FIRST_LINE, ["holds nothing to show"]),
    "garbage after the first line": (FIRST_LINE + b"\xff" * 5000, ["holds nothing to show", "cut off"]),
    "many false chunk headers": (FIRST_LINE + chunks.MAGIC * 500_000, ["holds nothing to show"]),
    "an empty chunk": (FIRST_LINE + write_chunk(ChunkKind.RECORDS, 7, 1.0, []), ["holds nothing to show"]),
    "records of an unknown form": (
        FIRST_LINE + write_chunk(ChunkKind.RECORDS, 7, 1.0, [[1.0, 7, "message", {"type": "greeting", "pid": "x"}]]),
        ["holds nothing to show"],
    ),
    "a kind of a later version": (FIRST_LINE + write_chunk(ChunkKind.LOOK, 7, 1.0, {}), ["holds nothing to show"]),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_file_without_a_usable_recording_gets_a_sentence(tmp_path, name):
    data, words = SENTENCES[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(GputuiError) as caught:
        Recording(path)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "a folder"])
def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path, name):
    (tmp_path / "a folder").mkdir()
    with pytest.raises(GputuiError, match=f"{name} cannot be read: .* Name a recording made with `gputui attach"):
        Recording(tmp_path / name)


def test_the_memory_of_a_chunk_is_limited():
    header = chunks._HEADER.pack(chunks.MAGIC, ChunkKind.RECORDS, 0, 0, 1.0, len(BOMB))
    checked = header + chunks._SUM.pack(zlib.crc32(BOMB, zlib.crc32(header)))
    with pytest.raises(chunks.DamagedError, match="more than a chunk may hold"):
        chunks.content_of(checked, BOMB)


def test_the_number_of_values_in_a_chunk_is_limited():
    chunk = write_chunk(ChunkKind.RECORDS, 0, 1.0, [[]] * (chunks.MAX_PARTS // 2 + 10))
    with pytest.raises(chunks.DamagedError, match="more values than a chunk may hold"):
        chunks.content_of(chunk[:HEADER_BYTES], chunk[HEADER_BYTES:])


def test_a_look_too_large_for_a_reader_is_left_out(monkeypatch, tmp_path):
    made = job(4, ends=False)
    monkeypatch.setattr(chunks, "MAX_CONTENT_BYTES", 3000)
    at = BEGAN + 10
    made.hear(at, look_at(at, [20] * 400))
    made.deliver(at)
    monkeypatch.undo()
    last = moments_in(made.write(tmp_path / "job"))[-1]
    assert last.devices[0].statistics == made.moments[GREETING.pid][-1].devices[0].statistics
    assert last.devices[0].layout is None


def test_texts_in_a_recording_cannot_send_control_characters(tmp_path):
    path = tmp_path / "job"
    evil = json.loads(json.dumps({"gputui": "1", "hostname": "\x1b]0;evil\x07"}))
    made = Made()
    made.chunks[0] = write_chunk(ChunkKind.RECORDS, 0, BEGAN, [[BEGAN, 0, "recording", evil]])
    recording = Recording(made.write(path))
    assert recording.about.hostname.isprintable()
