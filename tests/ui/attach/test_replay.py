"""Replays on the attach screens: keys, what stands there at a time, and how it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.model.playback import SPEEDS
from gputui.model.reading import Problem, ProblemKind
from gputui.probe.budget import TENSORS_ON_REQUEST
from gputui.settings.keys import KeyChange
from gputui.sources.recording.chunks import FIRST_LINE
from tests.explain.moments import GREETING
from tests.recording.made import BEGAN, Made, counters_at, job, ranks
from tests.ui.attach.replaying import replaying
from tests.ui.attach.sitting import sitting

ON_REQUEST = Problem(TENSORS_ON_REQUEST.format(20), ProblemKind.LOOK_ON_REQUEST)

JOB = job(60)
LIVE = JOB.moments[GREETING.pid]


@pytest.fixture
def recording(tmp_path):
    return JOB.write(tmp_path / "job.gputui")


def live_until(second: float):
    return [each for each in LIVE if each.time <= BEGAN + second]


async def test_it_is_said_to_be_a_replay(recording):
    async with replaying(recording) as shown:
        assert "node7" in shown.text.splitlines()[0]
        await shown.press("right_square_bracket")
        assert "PAUSED 1x 00:10 / 01:00" in shown.text.splitlines()[1]


async def test_a_key_plays_and_pauses(recording):
    async with replaying(recording) as shown:
        before_s = 0.0
        for key in ("space", "p"):
            assert not shown.playback.is_playing
            await shown.press(key)
            assert shown.playback.is_playing
            await shown.until(lambda before_s=before_s: shown.playback.position_s > before_s and shown.timeline.latest)
            await shown.press(key)
            position_s = shown.playback.position_s
            assert not shown.playback.is_playing
            assert position_s > before_s
            await shown.press()
            assert shown.playback.position_s == position_s
            before_s = position_s


async def test_space_plays_on_every_screen_and_scrolls_on_none(recording):
    async with replaying(recording) as shown:
        for number, key in enumerate("123456"):
            await shown.press(key, "space")
            assert shown.playback.is_playing == (number % 2 == 0), key


async def test_keys_go_on_and_back(recording):
    async with replaying(recording) as shown:
        for key, second in (("]", 10), ("]", 20), ("[", 10), (")", 60.5), ("[", 50.5), ("(", 0)):
            await shown.press(key)
            assert shown.playback.position_s == pytest.approx(second)
            assert [point.time for point in shown.timeline.points] == [each.time for each in live_until(second)]


async def test_after_going_back_the_state_is_as_it_was(recording):
    async with replaying(recording) as shown:
        await shown.press("]", "]")
        there = shown.timeline.moments, shown.timeline.points, shown.timeline.marked
        text = shown.text
        await shown.press(")", "[", "[", "[", "[")
        assert shown.playback.position_s == pytest.approx(20.5)
        await shown.press("(", "]", "]")
        assert (shown.timeline.moments, shown.timeline.points, shown.timeline.marked) == there
        assert shown.text == text
        assert list(there[0]) == live_until(20)
        assert [mark.label for mark, _ in there[2]] == ["second 5", "second 10", "second 15"]


async def test_keys_go_to_marks(recording):
    async with replaying(recording) as shown:
        for key, second in (("}", 5.1), ("}", 10.1), ("}", 15.1), ("{", 10.1), ("{", 5.1), ("{", 0), ("{", 0)):
            await shown.press(key)
            assert shown.playback.position_s == pytest.approx(second), key
        await shown.press(")", "}")
        assert shown.playback.is_at_end


async def test_keys_change_the_speed(recording):
    async with replaying(recording) as shown:
        for speed in SPEEDS[3:]:
            await shown.press(">")
            assert shown.playback.speed == speed
        await shown.press(">")
        assert shown.playback.speed == 64
        assert "PAUSED 64x" in shown.text
        await shown.press(*["<"] * 20)
        assert "PAUSED 1/4x" in shown.text


async def test_it_stops_at_the_end_and_shows_how_it_ended(recording):
    async with replaying(recording) as shown:
        await shown.press(*[">"] * 10, "space")
        await shown.until(lambda: shown.playback.is_at_end)
        for key in "123456":
            await shown.press(key)
            assert "END OF REPLAY 01:00 / 01:00" in shown.text, key
            assert "Process 7 ended with an error: OutOfMemoryError. Below is the last known state." in shown.text, key
        assert list(shown.timeline.moments) == LIVE
        await shown.press("space")
        assert not shown.playback.is_at_end
        assert shown.playback.is_playing


async def test_going_back_from_the_end_takes_the_end_back(recording):
    async with replaying(recording) as shown:
        await shown.press(")", "[")
        assert "ended with" not in shown.text
        assert shown.playback.position_s == pytest.approx(50.5)


async def test_nothing_can_be_asked_of_a_recording(recording):
    async with replaying(recording) as shown:
        await shown.press("]", "m", "u", "s")
        assert len(shown.timeline.latest.marks) == 2 - 1
        assert "Mark" not in shown.text.splitlines()[-1]
        assert "is set" not in shown.text


async def test_a_live_process_has_no_keys_of_a_replay():
    async with sitting(LIVE[0]) as at:
        assert "Play" not in at.text.splitlines()[-1]
        await at.press("]", "[", "space", ">", "(")
        assert at.screen == "memory"
        await at.press("p")
        assert "PAUSED" in at.text.splitlines()[0]


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_a_key_leaves(recording, key):
    async with replaying(recording) as shown:
        await shown.press("5")
        await shown.pilot.press(key)
        await shown.until(lambda: not shown.app.is_running or shown.app._exit)


async def test_text_that_is_typed_is_text(recording):
    async with replaying(recording) as shown:
        await shown.press("]", "4", "slash")
        await shown.pilot.press(*"kept or p", "[", "space")
        await shown.pilot.pause()
        assert not shown.playback.is_playing
        assert shown.playback.position_s == pytest.approx(10)
        assert shown.app.attached.targets.current.tensors.filter_text.startswith("kept or p")


async def test_the_cursor_in_time_does_not_stay_behind_in_the_future(recording):
    async with replaying(recording) as shown:
        await shown.press("]", "]", "left", "left")
        assert shown.app.attached.targets.current.cursor is not None
        await shown.press("[")
        assert shown.app.attached.targets.current.cursor is None


async def test_all_processes_are_there(tmp_path):
    path = job(10, *ranks(3)).write(tmp_path / "job.gputui")
    async with replaying(path) as shown:
        await shown.press(")", "6")
        assert [line.split()[0] for line in shown.text.splitlines() if "python train.py" in line]
        assert {each.moment.pid for each in shown.app.attached.targets.all if each.moment} == {100, 101, 102}
        await shown.press("[", "]", "1", "tab")
        assert " 101 python train.py" in shown.text
        assert "rank 1/3" in shown.text


async def test_what_is_lost_is_said(tmp_path):
    cut = tmp_path / "cut.gputui"
    cut.write_bytes(JOB.data[:-7])
    async with replaying(cut) as shown:
        await shown.until(lambda: shown.app._notifications)
        assert "The recording was cut off: what came after" in next(iter(shown.app._notifications)).message
    middle = len(JOB.chunks) // 2
    damaged = tmp_path / "damaged.gputui"
    damaged.write_bytes(FIRST_LINE + b"".join([*JOB.chunks[:middle], b"lost", *JOB.chunks[middle + 1 :]]))
    async with replaying(damaged, size=(160, 40)) as shown:
        await shown.press(")")
        assert "The recording is damaged between" in shown.text


async def test_no_sentence_names_a_key_for_what_cannot_be_asked_of_a_recording(tmp_path):
    made = Made()
    made.hear(
        BEGAN + 1,
        replace(counters_at(BEGAN + 1, 10), problems=(ON_REQUEST,)),
    )
    made.deliver(BEGAN + 1.1)
    async with replaying(made.write(tmp_path / "job.gputui")) as shown:
        await shown.press(")")
        assert "Tensors are looked at on request only: with them a look takes about 20 ms." in shown.text


async def test_the_keys_can_be_changed(recording):
    change = KeyChange("replay.play", ("f8",), "here")
    async with replaying(recording, keys=(change,)) as shown:
        await shown.press("f8")
        assert shown.playback.is_playing
        await shown.press("space")
        assert shown.playback.is_playing


async def test_the_position_is_there_at_every_size(recording):
    async with replaying(recording) as shown:
        await shown.press("]")
        for size in ((80, 24), (120, 40), (200, 50)):
            await shown.resize(*size)
            assert "PAUSED 1x 00:10 / 01:00" in shown.text, size
            assert "space Play" in shown.text.splitlines()[-1], size
