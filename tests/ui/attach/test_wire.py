"""What the attach screens send to the terminal: nothing for what stays, little for a new moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from gputui.model.moment import TargetMoment
from gputui.model.target import Mark
from gputui.model.tensors import Category
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import Sitting, sitting
from tests.ui.wire import Wire

KEYS = {"memory": "1", "why": "2", "map": "3", "tensors": "4", "changes": "5", "ranks": "6"}
SIZES = [(80, 24), (120, 40), (200, 50)]
BYTES_A_MOMENT = 2048
"""At one moment a second and 120x40, the most on the average of a minute."""
CALM_BYTES = {"memory": 450}
"""For a second in which nothing changed: the age of the look; on the Memory screen a new column of the timeline."""


def second(number: int, active_mib: int = 1000) -> TargetMoment:
    """A training program in second `number`, with so much activations; 120 seconds in it has been marked."""
    tensors = Tensor(1000, "w", Category.PARAMETER), Tensor(active_mib, "action")
    return moment(
        row(*tensors, free=2000 - active_mib),
        time=1000.0 + number,
        used_mib=3518,
        marks=(Mark(1100.5, "warm"),),
        peak_allocated_bytes=3 << 30,
    )


@asynccontextmanager
async def wired(name: str, moments: list[TargetMoment], size=(120, 40)) -> AsyncIterator[tuple[Sitting, Wire]]:
    """On a screen with these moments in its past, all of which has been sent."""
    async with sitting(moments[0], size=size) as at:
        for each in moments[1:]:
            at.feed.deal(each)
        await at.settle()
        await at.press(KEYS[name])
        wire = Wire(at.app)
        at.app.screen.refresh()
        await at.settle()
        wire.sent.clear()
        yield at, wire


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", KEYS)
async def test_the_same_moment_again_costs_nothing(name, size):
    moments = [second(number) for number in range(130)]
    async with wired(name, moments, size) as (at, wire):
        at.feed.deal(moments[-1])
        at.app.screen.refresh(layout=True)
        await at.settle()
        assert wire.sent
        assert wire.bytes == 0


@pytest.mark.parametrize("name", KEYS)
async def test_a_second_in_which_nothing_changed_costs_little(name):
    async with wired(name, [second(number) for number in range(130)]) as (at, wire):
        await at.deal(second(130))
        assert wire.bytes < CALM_BYTES.get(name, 40)


@pytest.mark.parametrize("name", KEYS)
async def test_a_minute_in_which_everything_changes_stays_within_two_kilobytes_a_second(name):
    random = Random(7)
    moments = [second(number, random.randrange(100, 2000)) for number in range(190)]
    async with wired(name, moments[:130]) as (at, wire):
        for each in moments[130:]:
            await at.deal(each)
        assert wire.bytes <= BYTES_A_MOMENT * 60
