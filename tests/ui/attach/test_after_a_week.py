"""What a frame of each screen reads and does after days, against ten minutes: counted, without a clock."""

from __future__ import annotations

from tests.scale import sized
from tests.ui.attach.watching import FRAMES, RANKS, SCREENS, TEN_MINUTES_S, WEEK_S, Watching, Work, watching

LONG_S = sized(86_400, WEEK_S)
MORE = 1.1
SAMPLES_A_FRAME = 360
"""The last five minutes, in which growth is looked for, and what else of the counters is on screen."""


async def works_of(at: Watching) -> dict[str, Work]:
    """What some frames of each screen do."""
    works = {}
    for name in SCREENS:
        await at.go(name)
        works[name] = await at.work()
    return works


async def test_a_frame_after_days_costs_what_one_after_ten_minutes_does_and_every_time_can_be_shown():
    async with watching(TEN_MINUTES_S) as at:
        few = await works_of(at)
    async with watching(LONG_S) as at:
        many = await works_of(at)
        await check_times(at)
    assert {name: work.samples for name, work in many.items()} == {name: work.samples for name, work in few.items()}
    dearer = {name: (few[name].lines, work.lines) for name, work in many.items() if work.lines > MORE * few[name].lines}
    assert dearer == {}
    assert all(RANKS <= work.samples / FRAMES <= SAMPLES_A_FRAME for work in many.values()), many


async def check_times(at: Watching) -> None:
    """Every time of these days can be shown."""
    target = at.app.attached.targets.current
    times = []
    for back_s in (0, 1300, 20 * 3600, 0.98 * LONG_S, 1.3 * LONG_S):
        target.cursor = target.timeline.latest.time - back_s
        for name in ("memory", "why", "tensors", "ranks"):
            await at.go(name)
            assert target.answer.verdict is not None, (back_s, name)
        times.append(target.moment.time)
        assert target.moment.devices
    assert times == sorted(times, reverse=True)
    assert times[0] - times[-1] >= LONG_S
