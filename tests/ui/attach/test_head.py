"""The line above an attach screen: the age of the look and of the tensor names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.moment.actions import predict_release
from gputui.explain.ranks.memory import Oddity, Rank, sentence
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Playback
from gputui.ui.drawing.attach.head import draw_target
from gputui.ui.drawing.attach.ranks import RANK_COLUMNS, RankRow
from gputui.ui.drawing.line import text_of
from tests.explain.moments import Tensor, moment, row


def looked(names_time: float) -> TargetMoment:
    """A moment three seconds after a look at second 100, whose names are from `names_time`."""
    look = moment(row(Tensor(8, "model.w")), time=100.0)
    (device,) = look.devices
    device = replace(device, layout=replace(device.layout, names_time=names_time))
    return replace(look, time=103.0, devices=(device,))


@pytest.mark.parametrize(
    ("names_time", "width", "words"),
    [
        pytest.param(100.0, 100, "looked 3s ago, a pause of 1.0 ms", id="names from the same look"),
        pytest.param(100.0, 50, "looked 3s ago", id="a narrow line"),
        pytest.param(0.0, 100, "looked 3s ago, a pause of 1.0 ms", id="no names"),
        pytest.param(58.0, 100, "looked 3s ago (tensors 45s ago)", id="names from an earlier look"),
        pytest.param(58.0, 50, "tensors 45s ago", id="names from an earlier look on a narrow line"),
    ],
)
def test_the_line_shows_the_age_of_the_look_and_of_the_names(names_time: float, width: int, words: str) -> None:
    shown = looked(names_time)
    line = text_of((draw_target(shown, shown.devices[0], width, is_past=False),))
    assert line.rstrip().endswith(words)


@pytest.mark.parametrize(("gpu", "words"), [(None, "device 0 "), (0, "device 0 "), (3, "device 0 (GPU 3) ")])
def test_both_numbers_of_a_device_are_shown_where_they_differ(gpu: int | None, words: str) -> None:
    shown = looked(100.0)
    device = replace(shown.devices[0], driver=replace(shown.devices[0].driver, nvml_index=gpu))
    assert words in text_of((draw_target(shown, device, 80, is_past=False),))
    rank = Rank(shown, device)
    assert f"PID {shown.pid} on {words.rstrip()}: " in sentence(replace(rank, oddities=(Oddity("peak", 2, 1),)), 3)
    assert predict_release(replace(shown, devices=(device,)))[0].startswith(f"{words.rstrip()}: ")
    shown_number = next(column for column in RANK_COLUMNS if column.name == "device").text(RankRow(rank, 0))
    assert shown_number[0] == ("0" if gpu in (None, 0) else "0=3")


def test_a_command_is_cut_only_where_the_line_is_full() -> None:
    shown = looked(100.0)
    command = f"train.py --config {'x' * 40}"
    shown = replace(shown, greeting=replace(shown.greeting, command=f"python {command}"))
    wide, narrow = (text_of((draw_target(shown, shown.devices[0], width, is_past=False),)) for width in (120, 70))
    assert command in wide
    assert "x…" in narrow
    assert len(narrow) == 69  # the state ends in a space


@pytest.mark.parametrize(
    ("width", "state"),
    [(50, ""), (80, "the top of a step   "), (100, "the top of a step, looked 3s ago   ")],
    ids=lambda value: str(value).strip(),
)
def test_a_replay_shows_one_form_of_the_state_that_leaves_room_for_the_position(width: int, state: str) -> None:
    shown = replace(looked(100.0), is_top=True)
    playback = Playback(position_s=20.0, length_s=75.0, is_playing=False)
    line = text_of((draw_target(shown, shown.devices[0], width, is_past=False, playback=playback),))
    assert line.split("  device 0 ")[1].strip() == f"{state}PAUSED 1x 00:20 / 01:15"
