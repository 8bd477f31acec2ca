"""How many bytes the attach screens send: none for an unchanged screen, few for a new moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Mark
from gputui.model.attached.tensors import Category
from tests.explain.moments import Tensor, moment, row
from tests.scale import scaled
from tests.ui.attach.sitting import Sitting, sitting
from tests.ui.wire import Wire

KEYS = {"memory": "1", "why": "2", "map": "3", "tensors": "4", "changes": "5", "ranks": "6", "step": "7"}
SIZES = [(80, 24), (120, 40), (200, 50)]
BYTES_A_MOMENT = 2048
"""Limit per moment at 120x40, averaged over `CHANGING_S` moments one second apart."""
CHANGING_S = scaled(5, 15)
CALM_BYTES = {"memory": 450}
"""Limits for an unchanged second, in which the age of the look and, on Memory, a timeline column are drawn."""


def second(number: int, active_mib: int = 1000) -> TargetMoment:
    """A training program in second `number` with `active_mib` of activations; it has a mark at 100.5 s."""
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
    """The application attached to a process, after these moments, with a byte counter."""
    async with sitting(moments[0], size=size) as at:
        for newer in moments[1:]:
            at.feed.deal(newer)
        await at.settle()
        yield at, Wire(at.app)


async def open_screen(at: Sitting, wire: Wire, name: str) -> None:
    """Open a screen and send all of it, then reset the byte count."""
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


async def test_a_second_without_changes_costs_little():
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
            assert wire.bytes <= BYTES_A_MOMENT * CHANGING_S, name
            assert wire.bytes, name
