"""Keys that every screen of an attached process has, and the line that tells of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.probe.budget import TENSORS_ON_REQUEST
from gputui.settings.keys import KeyChange
from tests.explain.maps import segment
from tests.explain.moments import moment
from tests.ui.attach.sitting import sitting

LINES = {
    "1": " 1-6 Screens  ← Back  → Forward  n Now  z Zoom  m Mark  ? Help  q Quit",
    "2": " 1-6 Screens  ⏎ Show  m Mark  esc Monitor  ? Help  q Quit  p Pause",
    "3": " 1-6 Screens  ⏎ Tensor  z Zoom  o Sort  m Mark  esc Monitor  ? Help  q Quit",
    "4": " 1-6 Screens  g Group  o Sort  / Filter  * All  b Block  m Mark  ? Help  q Quit",
    "5": " 1-6 Screens  f From  t To  m Mark  esc Monitor  ? Help  q Quit  p Pause",
    "6": " 1-6 Screens  m Mark  esc Monitor  ? Help  q Quit  p Pause",
}


async def test_keys_ask_the_probe_for_looks():
    async with sitting(moment(segment(("free", 40)))) as at:
        await at.press("u", "2", "u", "s")
        assert at.feed.looks == ["walk", "walk", "scan"]


@pytest.mark.parametrize(("keys", "named"), [((), "(key u)"), (("f8",), "(key f8)")], ids=["as it is", "changed"])
async def test_where_a_sentence_names_the_key_for_a_look_it_is_the_one_that_it_has(keys, named):
    shown = replace(moment(segment(("live", 40))), problems=(TENSORS_ON_REQUEST.format(20),))
    changes = tuple(KeyChange("attach.look", (key,), "here") for key in keys)
    async with sitting(shown, keys=changes) as at:
        for looks, screen in enumerate("124", start=1):
            await at.press(screen)
            assert f"on request only {named}" in at.text, screen
            await at.press(*(keys or ("u",)))
            assert at.feed.looks == ["walk"] * looks, screen


async def test_at_80_columns_the_screens_own_keys_stand_in_the_last_line():
    async with sitting(moment(segment(("live", 40)))) as at:
        for key, line in LINES.items():
            await at.press(key)
            assert at.lines[-1] == line


async def test_where_there_is_room_every_screen_has_its_name():
    async with sitting(moment(segment(("live", 40))), size=(120, 40)) as at:
        await at.press("2")
        assert at.lines[-1].startswith(
            " 1 Memory  2 Why  3 Map  4 Tensors  5 Changes  6 Ranks  ⏎ Show  m Mark  esc Monitor"
        )
