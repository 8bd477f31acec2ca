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
from tests.scale import SCALE
from tests.ui.attach.sitting import Sitting, sitting
from tests.ui.wire import Wire

KEYS = {"memory": "1", "why": "2", "map": "3", "tensors": "4", "changes": "5", "ranks": "6"}
SIZES = [(80, 24), (120, 40), (200, 50)]
BYTES_A_MOMENT = 2048
"""At one moment a second and 120x40, the most on the average of `CHANGING_S`."""
CHANGING_S = 15 * SCALE
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
async def wired(moments: list[TargetMoment], size=(120, 40)) -> AsyncIterator[tuple[Sitting, Wire]]:
    """Attached, with these moments in the past."""
    async with sitting(moments[0], size=size) as at:
        for each in moments[1:]:
            at.feed.deal(each)
        await at.settle()
        yield at, Wire(at.app)


async def open_screen(at: Sitting, wire: Wire, name: str) -> None:
    """Go to a screen and send all of it."""
    await at.press(KEYS[name])
    wire.frames.forget()
    at.app.screen.refresh()
    await at.settle()
    wire.sent.clear()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_same_moment_again_costs_nothing(size):
    moments = [second(number) for number in range(130)]
    async with wired(moments, size) as (at, wire):
        for name in KEYS:
            await open_screen(at, wire, name)
            at.feed.deal(moments[-1])
            at.app.screen.refresh(layout=True)
            await at.settle()
            assert wire.sent, name
            assert wire.bytes == 0, name


async def test_a_second_in_which_nothing_changed_costs_little():
    async with wired([second(number) for number in range(130)]) as (at, wire):
        for number, name in enumerate(KEYS, start=130):
            await open_screen(at, wire, name)
            await at.deal(second(number))
            assert wire.bytes < CALM_BYTES.get(name, 40), name


async def test_seconds_in_which_everything_changes_stay_within_two_kilobytes_each():
    random = Random(7)
    numbers = iter(range(130, 10_000))
    async with wired([second(number, random.randrange(100, 2000)) for number in range(130)]) as (at, wire):
        for name in KEYS:
            await open_screen(at, wire, name)
            for _ in range(CHANGING_S):
                await at.deal(second(next(numbers), random.randrange(100, 2000)))
            assert 0 < wire.bytes <= BYTES_A_MOMENT * CHANGING_S, name
