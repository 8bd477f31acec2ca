"""The Step screen: how it asks, what its keys do, and how few bytes a move of the cursor costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import ActionName, Disconnect, DisconnectKind
from tests.explain.maps import segment
from tests.explain.moments import GREETING, moment
from tests.ui.attach.scene import recorded
from tests.ui.attach.sitting import sitting
from tests.ui.wire import Wire

BYTES_A_MOVE = 1200
"""Limit at 120x40 for one move of the cursor, which changes a column of the graph and the table below it."""


def moment_with(**changes: object) -> TargetMoment:
    greeting = replace(GREETING, actions=tuple(name.value for name in ActionName))
    return replace(moment(segment(("live", 40))), greeting=greeting, **changes)


async def test_without_a_step_the_screen_says_how_to_record_one_and_what_that_costs() -> None:
    async with sitting(moment_with()) as at:
        await at.press("7")
        words = " ".join(at.text.split())
        assert "No step has been recorded in this process." in words
        assert "Press r to record one." in words
        assert "for at most 100 ms" in words
        await at.press("r", "enter")
        assert at.feed.actions == []
        await at.press("r", "tab", "enter")
        assert at.feed.actions == [ActionName.RECORD_STEP]


@pytest.mark.parametrize("screen", ["7", "8"])
async def test_a_process_that_has_ended_without_a_step_is_not_called_a_file(screen: str) -> None:
    async with sitting(moment_with(ended=Disconnect(DisconnectKind.EXITED))) as at:
        await at.press(screen)
        assert "The process ended before a step was recorded." in at.text
        assert "file" not in at.text


@pytest.mark.parametrize("screen", ["7", "8"])
async def test_readonly_names_no_key_that_records_a_step(screen: str) -> None:
    async with sitting(moment_with(), is_readonly=True) as at:
        await at.press(screen)
        words = " ".join(at.text.split())
        assert "No step has been recorded in this process." in words
        assert "Start gputui without --readonly to record one." in words
        assert "Press r" not in words


async def test_the_answer_is_in_the_first_lines() -> None:
    async with sitting(moment_with(recorded=recorded())) as at:
        await at.press("7")
        assert at.lines[2].startswith(" peak 348 MiB in backward (event 17 of ")
        assert at.lines[4].strip() == "ana/train.py:32 in step: 32.0 MiB, most of what the step itself allocated"
        assert at.lines[5].startswith(" a step of ")
        assert "lived longer than it had to: 16.0 MiB of ana/model.py:40 in forward" in at.text
        assert "before - stays" in at.text


async def test_the_verdict_on_the_present_is_shown_until_there_is_a_step() -> None:
    async with sitting(moment_with()) as at:
        await at.press("7")
        assert at.lines[2].startswith(" Most of PyTorch's memory is held by blocks without a known owner: 40.0 MiB")


async def test_keys_move_the_cursor_over_the_events() -> None:
    async with sitting(moment_with(recorded=recorded())) as at:
        await at.press("7")
        view = at.app.attached.targets.current.step
        step = view.step
        assert view.cursor == step.peak
        phases = [run.first for run in step.phases_within()]
        places = {
            "right": step.peak + 1, "left": step.peak, "home": step.first, "f": phases[1], "F": phases[0],
            "end": step.end - 1, "t": step.peak, "n": step.rises()[0],
            "pageup": step.rises()[0] - (step.end - step.first) // 10,
        }  # fmt: skip
        for key, event in places.items():
            await at.press(key)
            assert view.cursor == max(step.first, event), key
        await at.press("w", "home")
        assert view.cursor == 0
        assert "the whole recording" in at.text


async def test_g_groups_by_line_module_block_and_kind() -> None:
    async with sitting(moment_with(recorded=recorded())) as at:
        await at.press("7")
        for title in ("line that allocated it", "module", "each block, by size", "kind", "line that allocated it"):
            assert title in at.text
            await at.press("g")


async def test_a_trace_without_a_recording_is_shown_as_well() -> None:
    traces = recorded()
    async with sitting(moment_with(traces=traces.traces, look=traces.look)) as at:
        await at.press("7")
        assert at.lines[2].startswith(" peak 348 MiB in backward")
        assert "while recorded" not in at.text


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_move_of_the_cursor_costs_few_bytes(size) -> None:
    async with sitting(moment_with(recorded=recorded()), size=size) as at:
        await at.press("7")
        wire = Wire(at.app)
        wire.frames.forget()
        at.app.screen.refresh()
        await at.settle()
        wire.sent.clear()
        await at.press("right")
        assert 0 < wire.bytes <= BYTES_A_MOVE * size[0] * size[1] / (120 * 40) + 600
