"""A jump in a recording reads what lies near, however long the recording is, and shows what reading all would show."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from gputui.model.attached.target import Mark
from gputui.sources.files.recording import bookmarks
from gputui.sources.files.recording.bookmarks import BOOKMARKS_AT_MOST, Bookmark, Bookmarks
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.story import Story
from tests.recording.made import BEGAN, Made, counters_at, look_at, ranks

SECONDS = 500


@pytest.fixture(autouse=True)
def dense(monkeypatch):
    """So many bookmarks are due that some are given up."""
    monkeypatch.setattr(bookmarks, "FIRST_SPACING_S", SECONDS / (BOOKMARKS_AT_MOST + 1))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A recording of two ranks, with looks and marks."""
    made = Made(*ranks(2))
    for second in range(SECONDS):
        at = BEGAN + second
        for pid in made.moments:
            made.hear(at, counters_at(at, 10 + second % 7), pid)
            made.deliver(at + 0.01, pid)
            if second % 97 == 5:
                made.deliver(at - 0.5, pid)  # a clock that was set back
            if second % 20 == 7:
                made.hear(at + 0.1, look_at(at + 0.1, [20] * (1 + second // 20 % 5)), pid)
                made.deliver(at + 0.11, pid)
            if second % 150 == 3:
                made.hear(at + 0.2, Mark(at + 0.2, f"second {second}"), pid)
    return made.write(tmp_path_factory.mktemp("long") / "job")


def contents(timelines):
    """All that the timelines answer."""
    return {
        pid: (one.moments, one.looks(inf), one.marked, one.counters(0).last(inf), one.counters(0).first)
        for pid, one in timelines.items()
    }


@pytest.mark.parametrize("steps_s", [(SECONDS,), (1.0,) * SECONDS], ids=["read at once", "played"])
def test_a_jump_to_a_bookmark_shows_what_reading_all_before_shows(path, steps_s):
    recording, kept = Recording(path), Bookmarks()
    first, position = Story(recording, bookmarks=kept), BEGAN
    for step_s in steps_s:
        position += step_s
        first.advance(position)
    for second in (7.5, 175.05, 325.0, 499.9):
        jumped = Story(recording, bookmarks=kept, start=BEGAN + second).advance(BEGAN + second)
        assert contents(jumped) == contents(Story(Recording(path)).advance(BEGAN + second)), second


def test_a_jump_reads_few_chunks(path, monkeypatch):
    recording, kept, read = Recording(path), Bookmarks(), []
    original = Recording._records_at
    monkeypatch.setattr(Recording, "_records_at", lambda *args: read.append(args) or original(*args))
    Story(recording, bookmarks=kept).advance(recording.ends)
    of_all = len(read)
    read.clear()
    Story(recording, bookmarks=kept, start=BEGAN + 475).advance(BEGAN + 475)
    assert 0 < len(read) < of_all / 10


def test_bookmarks_stay_few_and_evenly_spread():
    kept = Bookmarks()
    for second in range(0, 7 * 86_400, 5):
        if kept.is_due(second):
            kept.add(Bookmark(second, second, {}))
    times = [bookmark.time for bookmark in kept._all]
    assert BOOKMARKS_AT_MOST / 3 < len(times) <= BOOKMARKS_AT_MOST
    assert max(after - before for before, after in pairwise(times)) <= 2 * kept._spacing_s
    assert kept.before(times[3] + 1).time == times[3]
    assert kept.before(-1.0) is None
