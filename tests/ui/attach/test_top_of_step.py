"""The top of a step on the screens: it is shown first, a key turns to the present, and the line of keys says so."""

from __future__ import annotations

import pytest

from tests.explain.memory.test_need import BOTTOM, TOP, seen
from tests.ui.attach.sitting import sitting

SCREENS = {"memory": "1", "map": "3", "tensors": "4"}
WIDE = (160, 40)


@pytest.mark.parametrize("key", SCREENS.values(), ids=SCREENS.keys())
async def test_the_top_comes_first_and_a_key_turns_to_the_present(key: str) -> None:
    async with sitting(seen(TOP, BOTTOM), size=WIDE) as at:
        await at.press(key)
        assert "the top of a step, looked " in at.text
        assert "Each step needs up to 2.0 GiB of the device" in at.text
        await at.press("v")
        assert "the top of a step, looked " not in at.text
        await at.press("v")
        assert "the top of a step, looked " in at.text


async def test_the_line_of_keys_follows() -> None:
    async with sitting(seen(BOTTOM, swing=None), size=WIDE) as at:
        assert "Top/now" not in at.text
        await at.deal(seen(TOP, BOTTOM, time=120.0))
        assert "Top/now" in at.text


async def test_a_look_that_was_asked_for_shows_the_present() -> None:
    async with sitting(seen(TOP, BOTTOM), size=WIDE) as at:
        await at.press("u")
        assert at.feed.looks == ["walk"]
        assert "the top of a step, looked " not in at.text


async def test_the_need_is_read_on_a_small_terminal() -> None:
    async with sitting(seen(TOP, BOTTOM)) as at:
        first_lines = " ".join(" ".join(at.text.splitlines()[2:4]).split())
        assert first_lines.startswith("Each step needs up to 2.0 GiB of the device; 1.4 GiB of it only within the step")
