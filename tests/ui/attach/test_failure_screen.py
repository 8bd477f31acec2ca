"""The Why screen of a black box: the error first, then who held the memory and what would have been enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.failure.sections import Row, Section, Table, sections_of
from gputui.model.attached.target import Disconnect, DisconnectKind
from gputui.ui.drawing.attach.failure import draw_section
from gputui.ui.drawing.attach.head import draw_ending, draw_target
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.widgets.blocks import Blocks
from tests.explain.moments import Tensor
from tests.explain.test_failure import BIG, failed
from tests.ui.attach.sitting import sitting

FAILED = failed(BIG, Tensor(512, "h (train.py:12 in step)"), unused_mib=900)

REMEDIES = Section(
    kind="failure_remedies",
    title="What would have made room for 56.0 MiB more, the least effort first",
    tables=(
        Table("", (Row("up to 900 MiB", "enough", "Start the program with other settings.", is_good=True),), True),
    ),
)


def test_a_remedy_shows_its_bytes_and_whether_it_is_enough():
    assert text_of(draw_section(REMEDIES, 60, is_current=False)) == (
        " - What would have made room for 56.0 MiB more, the least\n"
        "   effort first\n"
        "  up to 900 MiB  enough     Start the program with other\n"
        "                            settings.\n"
    )


def test_the_request_comes_before_its_holders():
    request, holders, _ = sections_of(FAILED)
    assert text_of(draw_section(request, 80, is_current=True, destination="Map")) == (
        " ! Out of memory: 256 MiB asked for in the forward pass, 56.0 MiB more than was\n"
        "   free.\n"
        "     Requested at ana/train.py:12 in step, called from ana/train.py:40 in\n"
        "     <module>.\n"
        "     Device 0 has 6.1 GiB: 200 MiB free, 5.4 GiB reserved by PyTorch, 518 MiB\n"
        "     held by the CUDA context, libraries and other processes.\n"
        "     PyTorch's cache has 900 MiB free, in pieces of at most 900 MiB.\n"
        "     Enter shows it on the Map screen.\n"
    )
    assert text_of(draw_section(holders, 80, is_current=False)) == (
        " - Who held the 5.4 GiB that PyTorch had reserved\n"
        "        4.0 GiB   74%  parameters\n"
        "        900 MiB   16%  stuck\n"
        "        512 MiB    9%  activations\n"
        "     Modules\n"
        "        4.0 GiB   74%  model                                           1 module\n"
        "     Tensors\n"
        "        4.0 GiB   74%  model.weight         1 x (1073741824,) float32 parameter\n"
        "        512 MiB    9%  h (train.py:12 in step)\n"
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_screen(width):
    for section in sections_of(FAILED):
        for is_current in (True, False):
            lines = draw_section(section, width, is_current=is_current, destination="Map")
            assert max(map(width_of, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_head_says_out_of_memory_instead_of_ended(width):
    ended = Disconnect(DisconnectKind.ERROR, "OutOfMemoryError: CUDA out of memory.")
    moment = replace(FAILED, ended=ended)
    head = draw_target(moment, moment.devices[0], width, is_past=False)
    assert "OUT OF MEMORY" in text_of([head])
    assert draw_ending(moment, width) == []


async def test_the_sections_are_under_the_cursor_and_lead_to_other_screens():
    async with sitting(FAILED) as at:
        await at.press("2")
        await at.resize(80, 24)
        blocks = at.app.screen.query_one(Blocks)
        assert "! Out of memory: 256 MiB asked for in the forward pass" in at.text
        assert at.lines[2].startswith(" Most of PyTorch's memory")
        assert next(line for line in at.lines[3:] if line.lstrip().startswith("!")) in at.lines[3:6]
        assert "Nothing to do" not in at.text
        kinds = []
        for _ in range(3):
            kinds.append(blocks.current.kind)
            assert blocks.current.title[:40] in at.text
            await at.press("down")
        assert kinds == ["failure", "failure_holders", "failure_remedies"]
        await at.press("home", "down", "enter")
        assert at.screen == "tensors"
