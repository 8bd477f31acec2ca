"""The line above an attach screen: of which moment it is, and of which its names are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.model.moment import TargetMoment
from gputui.ui.drawing.attach.head import draw_target
from gputui.ui.drawing.line import text_of
from tests.explain.moments import Tensor, moment, row


def looked(names_time: float) -> TargetMoment:
    """Three seconds after a look at second 100."""
    made = moment(row(Tensor(8, "model.w")), time=100.0)
    (device,) = made.devices
    device = replace(device, layout=replace(device.layout, names_time=names_time))
    return replace(made, time=103.0, devices=(device,))


@pytest.mark.parametrize(
    ("names_time", "width", "words"),
    [
        pytest.param(100.0, 100, "looked 3s ago, a pause of 1.0 ms", id="a look with its own tensors"),
        pytest.param(100.0, 50, "looked 3s ago", id="in little space"),
        pytest.param(0.0, 100, "looked 3s ago, a pause of 1.0 ms", id="no tensors at all"),
        pytest.param(58.0, 100, "looked 3s ago (tensors 45s ago)", id="names of an earlier look"),
        pytest.param(58.0, 50, "tensors 45s ago", id="names of an earlier look in little space"),
    ],
)
def test_the_line_says_how_old_look_and_names_are(names_time: float, width: int, words: str) -> None:
    shown = looked(names_time)
    line = text_of((draw_target(shown, shown.devices[0], width, is_past=False),))
    assert line.rstrip().endswith(words)
