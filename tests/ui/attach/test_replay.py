"""Replays on the attach screens: keys, what is replay at each time, and the end of the recording."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from gputui.model.attached.timeline import SPEEDS, Timeline
from gputui.model.reading import Problem, ProblemKind
from gputui.probe.pace.budget import RECORDS
from gputui.settings import KeyChange
from gputui.sources.files.recording.chunks import FIRST_LINE
from tests.explain.moments import GREETING
from tests.recording.made import BEGAN, Made, counters_at, job, ranks
from tests.ui.attach.replaying import replaying
from tests.ui.attach.sitting import sitting

ON_REQUEST = Problem(RECORDS, ProblemKind.LOOK_ON_REQUEST)

JOB = job(60)
LIVE = JOB.moments[GREETING.pid]


@pytest.fixture
def recording(tmp_path):
    return JOB.write(tmp_path / "job.gputui")


def live_until(second: float):
    return [moment for moment in LIVE if moment.time <= BEGAN + second]


def times_in(timeline: Timeline):
    return [counted.time for counted in timeline.counters(0).last(inf)]


async def test_the_screen_is_marked_as_a_replay(recording):
    async with replaying(recording) as replay:
        assert "node7" in replay.text.splitlines()[0]
        await replay.press("right_square_bracket")
        assert "PAUSED 1x 00:10 / 01:00" in replay.text.splitlines()[1]


async def test_the_play_key_plays_and_pauses(recording):
    async with replaying(recording) as replay:
        before_s = 0.0
        for key in ("space", "p"):
            assert not replay.playback.is_playing
            await replay.press(key)
            assert replay.playback.is_playing
            await replay.until(
                lambda before_s=before_s: replay.playback.position_s > before_s and replay.timeline.latest
            )
            await replay.press(key)
            position_s = replay.playback.position_s
            assert not replay.playback.is_playing
            assert position_s > before_s
            await replay.press()
            assert replay.playback.position_s == position_s
            before_s = position_s


async def test_space_plays_and_does_not_scroll_on_every_screen(recording):
    async with replaying(recording) as replay:
        for number, key in enumerate("123456"):
            await replay.press(key, "space")
            assert replay.playback.is_playing == (number % 2 == 0), key


async def test_keys_move_forward_and_back(recording):
    async with replaying(recording) as replay:
        for key, second in (("]", 10), ("]", 20), ("[", 10), (")", 60.5), ("[", 50.5), ("(", 0)):
            await replay.press(key)
            assert replay.playback.position_s == pytest.approx(second)
            assert times_in(replay.timeline) == [moment.time for moment in live_until(second)]


async def test_going_back_restores_the_earlier_state(recording):
    async with replaying(recording) as replay:
        await replay.press("]", "]")
        state = replay.timeline.moments, times_in(replay.timeline), replay.timeline.marked
        text = replay.text
        await replay.press(")", "[", "[", "[", "[")
        assert replay.playback.position_s == pytest.approx(20.5)
        await replay.press("(", "]", "]")
        assert (replay.timeline.moments, times_in(replay.timeline), replay.timeline.marked) == state
        assert replay.text == text
        assert list(state[0]) == live_until(20)
        assert [mark.label for mark, _ in state[2]] == ["second 5", "second 10", "second 15"]


async def test_keys_jump_between_marks(recording):
    async with replaying(recording) as replay:
        for key, second in (("}", 5.1), ("}", 10.1), ("}", 15.1), ("{", 10.1), ("{", 5.1), ("{", 0), ("{", 0)):
            await replay.press(key)
            assert replay.playback.position_s == pytest.approx(second), key
        await replay.press(")", "}")
        assert replay.playback.is_at_end


async def test_keys_change_the_speed(recording):
    async with replaying(recording) as replay:
        for speed in SPEEDS[3:]:
            await replay.press(">")
            assert replay.playback.speed == speed
        await replay.press(">")
        assert replay.playback.speed == 64
        assert "PAUSED 64x" in replay.text
        await replay.press(*["<"] * 20)
        assert "PAUSED 1/4x" in replay.text


async def test_the_replay_stops_at_the_end_and_shows_how_the_process_ended(recording):
    async with replaying(recording) as replay:
        await replay.press(*[">"] * 10, "space")
        await replay.until(lambda: replay.playback.is_at_end)
        for key in "123456":
            await replay.press(key)
            assert "END OF REPLAY 01:00 / 01:00" in replay.text, key
            assert "Process 7 ended with an error: OutOfMemoryError. Below is the last known state." in replay.text, key
        assert list(replay.timeline.moments) == LIVE
        await replay.press("space")
        assert not replay.playback.is_at_end
        assert replay.playback.is_playing


async def test_going_back_from_the_end_removes_the_end_message(recording):
    async with replaying(recording) as replay:
        await replay.press(")", "[")
        assert "ended with" not in replay.text
        assert replay.playback.position_s == pytest.approx(50.5)


async def test_marks_and_looks_are_not_available_in_a_recording(recording):
    async with replaying(recording) as replay:
        await replay.press("]", "m", "u", "s")
        assert len(replay.timeline.latest.marks) == 2 - 1
        assert "Mark" not in replay.text.splitlines()[-1]
        assert "is set" not in replay.text


async def test_replay_keys_do_nothing_on_a_live_process():
    async with sitting(LIVE[0]) as at:
        assert "Play" not in at.text.splitlines()[-1]
        await at.press("]", "[", "space", ">", "(")
        assert at.screen == "memory"
        await at.press("p")
        assert "PAUSED" in at.text.splitlines()[0]


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_escape_and_q_leave_the_replay(recording, key):
    async with replaying(recording) as replay:
        await replay.press("5")
        await replay.pilot.press(key)
        await replay.until(lambda: not replay.app.is_running or replay.app._exit)


async def test_typed_text_does_not_trigger_replay_keys(recording):
    async with replaying(recording) as replay:
        await replay.press("]", "4", "slash")
        await replay.pilot.press(*"kept or p", "[", "space")
        await replay.pilot.pause()
        assert not replay.playback.is_playing
        assert replay.playback.position_s == pytest.approx(10)
        assert replay.app.attached.targets.current.tensors.filter_text.startswith("kept or p")


async def test_going_back_drops_a_time_cursor_that_lies_in_the_future(recording):
    async with replaying(recording) as replay:
        await replay.press("]", "]", "left", "left")
        assert replay.app.attached.targets.current.cursor is not None
        await replay.press("[")
        assert replay.app.attached.targets.current.cursor is None


async def test_all_recorded_processes_can_be_shown(tmp_path):
    path = job(10, *ranks(3)).write(tmp_path / "job.gputui")
    async with replaying(path) as replay:
        await replay.press(")", "6")
        assert [line.split()[0] for line in replay.text.splitlines() if "train.py" in line]
        assert {target.moment.pid for target in replay.app.attached.targets.all if target.moment} == {100, 101, 102}
        await replay.press("[", "]", "1", "tab")
        assert " 101 train.py" in replay.text
        assert "rank 1/3" in replay.text


async def test_missing_and_damaged_parts_are_reported(tmp_path):
    cut = tmp_path / "cut.gputui"
    cut.write_bytes(JOB.data[:-7])
    async with replaying(cut) as replay:
        await replay.until(lambda: replay.app._notifications)
        assert "The recording was cut off: what came after" in next(iter(replay.app._notifications)).message
    middle = len(JOB.chunks) // 2
    damaged = tmp_path / "damaged.gputui"
    damaged.write_bytes(FIRST_LINE + b"".join([*JOB.chunks[:middle], b"lost", *JOB.chunks[middle + 1 :]]))
    async with replaying(damaged, size=(160, 40)) as replay:
        await replay.press(")")
        assert "The recording is damaged between" in replay.text


async def test_no_sentence_of_a_replay_names_a_key_for_a_look(tmp_path):
    recorded = Made()
    recorded.hear(
        BEGAN + 1,
        replace(counters_at(BEGAN + 1, 10), problems=(ON_REQUEST,)),
    )
    recorded.deliver(BEGAN + 1.1)
    async with replaying(recorded.write(tmp_path / "job.gputui")) as replay:
        await replay.press(")")
        assert RECORDS in replay.text


async def test_the_replay_keys_are_configurable(recording):
    change = KeyChange("replay.play", ("f8",), "here")
    async with replaying(recording, keys=(change,)) as replay:
        await replay.press("f8")
        assert replay.playback.is_playing
        await replay.press("space")
        assert replay.playback.is_playing


async def test_the_position_is_shown_at_every_size(recording):
    async with replaying(recording) as replay:
        await replay.press("]")
        for size in ((80, 24), (120, 40), (200, 50)):
            await replay.resize(*size)
            assert "PAUSED 1x 00:10 / 01:00" in replay.text, size
            assert "space Play" in replay.text.splitlines()[-1], size


async def test_the_keys_line_says_that_escape_quits_a_replay(recording):
    async with replaying(recording) as replay:
        await replay.press("6")
        assert " esc Quit " in replay.text
        assert "Monitor" not in replay.text
