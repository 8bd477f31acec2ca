"""Keys shared by all attach screens, and the bottom line that lists them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from weakref import ref

import pytest

from gputui.model.reading import Problem, ProblemKind
from gputui.probe.pace.budget import RECORDS
from gputui.settings import KeyChange
from gputui.ui.app import GputuiApp
from gputui.ui.backend.terminal_app import SCREENS_COLLECTED
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.table import ATTACH_SCREENS
from gputui.ui.screens.help import bindings_of, default_keys, key_groups, owners
from tests.explain.maps import segment
from tests.explain.moments import moment
from tests.ui.attach.sitting import sitting

ON_REQUEST = Problem(RECORDS, ProblemKind.LOOK_ON_REQUEST)

LINES = {
    "1": " 1-8 Screens  u Look  ← Back  → Forward  m Mark  esc Monitor  ? Help  q Quit",
    "2": " 1-8 Screens  ⏎ Show  u Look  m Mark  x Action  esc Monitor  ? Help  q Quit",
    "3": " 1-8 Screens  ⏎ Tensor  z Zoom  o Sort  u Look  m Mark  ? Help  q Quit",
    "4": " 1-8 Screens  u Look  g Group  o Sort  / Filter  * All  b Block  ? Help  q Quit",
    "5": " 1-8 Screens  m Mark  f From  t To  u Look  x Action  ? Help  q Quit",
    "6": " 1-8 Screens  u Look  m Mark  x Action  esc Monitor  ? Help  q Quit  p Pause",
    "7": " 1-8 Screens  t Top  f Phase  n Rise  g Group  r Record  m Mark  ? Help  q Quit",
}


async def test_u_and_s_request_looks_from_the_probe():
    async with sitting(moment(segment(("free", 40)))) as at:
        await at.press("u", "2", "u", "s")
        assert at.feed.looks == ["walk", "walk", "scan"]


@pytest.mark.parametrize(
    ("keys", "named"),
    [((), "Press u to look now."), (("f8",), "Press f8 to look now.")],
    ids=["default key", "changed key"],
)
async def test_a_sentence_names_the_current_key_for_a_look(keys, named):
    shown = replace(moment(segment(("live", 40))), problems=(ON_REQUEST,))
    changes = tuple(KeyChange("attach.look", (key,), "here") for key in keys)
    async with sitting(shown, keys=changes) as at:
        for looks, screen in enumerate("124", start=1):
            await at.press(screen)
            assert named in at.text, screen
            await at.press(*(keys or ("u",)))
            assert at.feed.looks == ["walk"] * looks, screen


async def test_at_80_columns_the_last_line_lists_the_screens_own_keys():
    async with sitting(moment(segment(("live", 40)))) as at:
        for key, line in LINES.items():
            await at.press(key)
            assert at.lines[-1] == line


async def test_a_wide_bottom_line_names_every_screen():
    async with sitting(moment(segment(("live", 40))), size=(160, 40)) as at:
        await at.press("2")
        assert at.lines[-1].startswith(
            " 1 Memory  2 Why  3 Map  4 Tensors  5 Changes  6 Ranks  7 Step  8 What-if  ⏎ Show  u Look  m Mark"
        )


@pytest.mark.parametrize("name", ATTACH_SCREENS)
def test_every_attach_screen_has_the_name_and_keys_of_its_table_entry(name):
    screen_class = ATTACH_SCREENS[name].screen_class
    assert name == screen_class.NAME
    assert (name in keys_of(screen_class)) == bool(ATTACH_SCREENS[name].help_heading)


def keys_of(screen_class: type[AttachScreen]) -> set[str]:
    """The prefixes of the key ids that a screen and its widgets declare."""
    nodes = (screen_class, *screen_class.PARTS_WITH_KEYS)
    return {(binding.id or "").partition(".")[0] for node in nodes for binding in bindings_of(node)}


def test_every_configurable_key_has_a_heading_in_the_help():
    groups = key_groups(owners(GputuiApp))
    assert [name for name in default_keys(GputuiApp) if name.partition(".")[0] not in groups] == []


async def test_screens_that_were_left_are_freed_few_at_a_time(no_automatic_collection):
    async with sitting(moment(segment(("live", 40)))) as at:
        left = []
        for key in "25" * SCREENS_COLLECTED:
            left.append(ref(at.app.screen))
            await at.press(key)
        assert sum(screen() is not None for screen in left) < SCREENS_COLLECTED


@pytest.fixture
def no_automatic_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
