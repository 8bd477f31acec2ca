"""The What-if screen: the answer, the table of cases, the curves, and the cases that the user adds."""

from __future__ import annotations

import pytest

from gputui.explain.whatif.cases import default_cases
from gputui.explain.whatif.words import headline
from gputui.model.attached.target import ActionName
from gputui.sources.files.torch_snapshot.snapshot import open_snapshot
from gputui.ui.attach.targets import Target
from gputui.ui.drawing.attach.whatif import FARTHEST, Scale, largest_in_columns, scale_of
from gputui.units import MIB, format_bytes
from tests.opening.test_torch_snapshot import FILES
from tests.ui.attach.scene import job, machine, recorded
from tests.ui.attach.sitting import DealtFeed, Sitting, sitting
from tests.ui.attach.test_step_screen import moment_with

SIZES = [(80, 24), (120, 40), (200, 50)]


class SilentFeed(DealtFeed):
    """The feed of a file, which takes no actions."""

    run_action = None


def target_of(at: Sitting) -> Target:
    target = at.app.attached.targets.current
    assert target is not None
    return target


async def test_without_a_step_the_screen_says_how_to_record_one_and_what_that_costs() -> None:
    async with sitting(moment_with()) as at:
        await at.press("8")
        words = " ".join(at.text.split())
        assert "No step has been recorded in this process." in words
        assert "Press r to record one." in words
        assert "for at most 100 ms" in words
        await at.press("r", "tab", "enter")
        assert at.feed.actions == [ActionName.RECORD_STEP]


async def test_the_first_line_is_the_answer_and_the_recorded_settings_are_the_first_case() -> None:
    async with sitting(moment_with(recorded=recorded())) as at:
        await at.press("8")
        view = target_of(at).whatif
        assert view.baseline is not None
        assert at.lines[2].strip() == headline(view.baseline, view.answers)[: len(at.lines[2].strip())]
        table = next(place for place, line in enumerate(at.lines) if line.split()[:1] == ["Case"])
        assert at.lines[table + 1].startswith(" as recorded")
        peaks = [answer.outcome.peak_reserved_bytes for answer in view.rows()[1:]]
        assert peaks == sorted(peaks)
        assert len(peaks) >= 3


async def test_as_a_plan_the_cheapest_change_that_fits_comes_first() -> None:
    async with sitting(moment_with(recorded=recorded()), size=(120, 40)) as at:
        await at.press("8")
        assert "What saves most comes first." in at.text
        await at.press("o")
        assert "The cheapest change comes first." in at.text
        view = target_of(at).whatif
        assert [answer.case for answer in view.rows()[1:]] == list(default_cases(view.recorded))
        await at.press("e", *"900MiB", "enter")
        line = next(line for line in at.lines if "with 900MiB of memory" in line)
        assert "To spare" in at.text
        spare = 900 * MIB - view.answers[-1].outcome.peak_reserved_bytes
        assert format_bytes(spare) in line


async def test_enter_shows_the_curves_and_hides_them_again() -> None:
    async with sitting(moment_with(recorded=recorded()), size=(120, 40)) as at:
        await at.press("8")
        assert "allocations and frees" not in at.text
        await at.press("enter")
        assert "reserved over the trace, as recorded" in at.text
        assert "allocations and frees" in at.text
        await at.press("end")
        label = target_of(at).whatif.rows()[-1].case.label
        assert any(label in line for line in at.lines if "only as recorded" in line or "over the trace" in line)
        await at.press("c")
        assert "allocations and frees" not in at.text


async def test_a_case_is_written_by_hand() -> None:
    async with sitting(moment_with(recorded=recorded()), size=(120, 40)) as at:
        await at.press("8", "e", *"large_segment_size_mb:64", "space", *"4:8", "enter")
        view = target_of(at).whatif
        case = view.answers[-1].case
        assert (case.settings, case.batch) == ("large_segment_size_mb:64", (4, 8))
        assert "large_segment_size_mb:64, batch 8 instead of 4" in at.text
        count = len(view.answers)
        await at.press("e", *"expandable:True")
        assert "no setting 'expandable'" in at.text
        await at.press("enter", "escape")
        assert len(view.answers) == count


async def test_a_batch_brings_the_largest_one_that_fits() -> None:
    async with sitting(moment_with(recorded=recorded()), size=(120, 40)) as at:
        await at.press("8", "e", *"4:8", "space", *"2GiB", "enter")
        largest = target_of(at).whatif.largest
        assert largest is not None
        assert largest.peak_reserved_bytes <= 2 << 30
        assert f"The largest batch that fits is {largest.batch}:" in at.text
        await at.press("e", *"set-to-none")
        assert "nothing that set-to-none would change" in at.text
        await at.press("enter", "escape", "e", *"bfloat16", "enter")
        assert "all in bfloat16" in at.text
        assert f"The largest batch that fits is {largest.batch}:" in at.text


async def test_a_device_that_is_too_small_is_an_alarm() -> None:
    async with sitting(moment_with(recorded=recorded()), size=(120, 40)) as at:
        await at.press("8", "e", *"64MiB", "enter")
        assert "no memory" in at.text
        await at.press("end", "enter")
        assert "out of memory at event" in at.text


async def test_a_file_without_a_trace_says_how_to_record_one() -> None:
    moment = open_snapshot(FILES["plain-2.11"])
    async with sitting(moment, feed=SilentFeed) as at:
        await at.press("8")
        words = " ".join(at.text.split())
        assert "This file holds no allocator trace" in words
        assert "_record_memory_history()" in words
        assert "Add a case" not in words


async def test_the_bars_have_a_mark_at_the_device_unless_it_is_far_larger() -> None:
    async with sitting(moment_with(recorded=recorded())) as at:
        await at.press("8")
        answers = target_of(at).whatif.rows()
    top = max(answer.outcome.peak_reserved_bytes for answer in answers)
    assert scale_of(answers, 2 * top) == Scale(2 * top, 2 * top)
    assert scale_of(answers, 2 * FARTHEST * top) == Scale(top, 2 * FARTHEST * top)
    assert not scale_of(answers, 2 * FARTHEST * top).has_device
    assert scale_of(answers, top // 2) == Scale(top, top // 2)


@pytest.mark.parametrize(
    ("count", "width", "columns"),
    [(8, 4, [2, 4, 6, 8]), (8, 16, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]), (16, 4, [4, 8])],
    ids=["fewer columns", "more columns", "out of memory half-way"],
)
def test_a_column_of_a_curve_has_its_largest_value(count, width, columns) -> None:
    assert largest_in_columns([1, 2, 3, 4, 5, 6, 7, 8], count, width) == columns


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen(size, screen_text) -> None:
    async with sitting(*job(), size=size, snapshot=machine()) as at:
        await at.press("8", "e", *"4:8", "enter", "enter", "end")
        assert at.screen == "whatif"
        assert at.text == screen_text


async def test_ascii(monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sitting(*job(), snapshot=machine(), ascii=True) as at:
        await at.press("8", "enter", "end")
        for size in SIZES:
            await at.resize(*size)
            assert [line for line in at.lines if not line.isascii()] == [], size


async def test_the_why_screen_says_what_expandable_segments_would_have_given() -> None:
    async with sitting(open_snapshot(FILES["failure-2.11"]), feed=SilentFeed, size=(120, 40)) as at:
        await at.press("2")
        words = " ".join(at.text.split())
        assert "expandable_segments:True would not have made room for the request that failed" in words
        await at.press("8")
        assert at.lines[2].strip() == "No setting here makes room for the request that failed."
