"""However many processes are attached, reading their looks takes a part of a processor."""

from __future__ import annotations

import pytest

from gputui.sources.probe.feed import SHARE, SharedPace

LOOK_S = 0.05


def test_one_process_is_looked_at_as_often_as_its_probe_allows() -> None:
    pace = SharedPace()
    pace.join()
    assert pace.rest_s(LOOK_S) == 0.0


@pytest.mark.parametrize("feeds", [2, 64])
def test_the_looks_of_all_take_their_share(feeds: int) -> None:
    pace = SharedPace()
    for _ in range(feeds):
        pace.join()
    assert feeds * LOOK_S / pace.rest_s(LOOK_S) == pytest.approx(SHARE)
    for _ in range(feeds - 1):
        pace.leave()
    assert pace.rest_s(LOOK_S) == 0.0
