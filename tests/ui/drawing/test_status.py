"""The top line: what it drops first on a narrow terminal."""

import pytest

from gputui.ui.drawing.line import text_of
from gputui.ui.drawing.monitor.status import MonitorState, draw_status
from tests.ui import scenes

BUSY = MonitorState(is_paused=True, filter_text="user==ana", tagged=3)


@pytest.mark.parametrize(
    ("width", "state", "text"),
    [
        (80, MonitorState(), " gputui  node7  driver 580.95.05  CUDA 13.0                        1s  12:00:01"),
        (50, MonitorState(), " gputui  node7                       1s  12:00:01"),
        (20, MonitorState(), " gputui  node7"),
        (10, MonitorState(), " gputui"),
        (3, MonitorState(), " gputui"),
        (80, BUSY, " gputui  node7            PAUSED  3 tagged  filter: user==ana  1s  12:00:01"),
        (60, BUSY, " gputui  node7           PAUSED  3 tagged  filter: user==ana"),
        (45, BUSY, " gputui    PAUSED  3 tagged  filter: user==ana"),
        (30, BUSY, "  PAUSED  3 tagged  filter: user==ana"),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_the_state_is_dropped_last(width, state, text, monkeypatch):
    assert " ".join(text_of((draw_status(scenes.node(), state, width),)).split()) == " ".join(text.split())


def test_a_demonstration_is_labelled_on_a_narrow_line():
    demo = scenes.node()._replace(is_demo=True)
    assert "DEMONSTRATION" in text_of((draw_status(demo, MonitorState(), 30),))


def test_old_numbers_are_marked_as_stale():
    old = scenes.node()._replace(devices_age_s=75.0)
    assert "STALE 1:15" in text_of((draw_status(old, MonitorState(), 20),))
