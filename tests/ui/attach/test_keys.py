"""Keys that every screen of an attached process has."""

from __future__ import annotations

from tests.explain.maps import segment
from tests.explain.moments import moment
from tests.ui.attach.sitting import sitting


async def test_keys_ask_the_probe_for_looks():
    async with sitting(moment(segment(("free", 40)))) as at:
        await at.press("u", "2", "u", "s")
        assert at.feed.looks == ["walk", "walk", "scan"]
