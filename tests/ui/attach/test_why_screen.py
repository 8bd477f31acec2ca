"""The Why screen: findings under a cursor, and jumps to the memory that a finding points at."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gputui.explain.answer.verdict import look_holders, verdict
from gputui.model.attached.analysis import Finding
from gputui.model.attached.target import Disconnect, DisconnectKind
from gputui.model.machine.process import Workers
from gputui.model.weight import Weight
from gputui.ui.drawing.attach.why import draw_advice, draw_answer, draw_finding, draw_holders
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.blocks import Blocks
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import sitting

FAR = 1 << 40
SIZES = [(80, 24), (120, 40), (200, 50)]

FINDING = Finding(
    kind="leak",
    weight=Weight.PROBLEM,
    title="A leak: losses keeps more tensors at every look, 26.3 GiB more since the first look.",
    evidence=("losses grew from 1 to 127 tensors.",),
    remedy="Append loss.item() to losses.",
    screen="tensors",
    addresses=(FAR,),
)


def test_a_finding_shows_title_evidence_and_remedy():
    assert text_of(draw_finding(FINDING, 60, is_current=True, destination="Tensors")) == (
        " ! A leak: losses keeps more tensors at every look, 26.3\n"
        "   GiB more since the first look.\n"
        "   > Append loss.item() to losses.\n"
        "     losses grew from 1 to 127 tensors.\n"
        "     Enter shows it on the Tensors screen.\n"
    )


@pytest.mark.parametrize(
    ("owners", "line"),
    [
        pytest.param(("batch",), " > Append loss.item() to losses.", id="the verdict names the owner"),
        pytest.param((), " > Append loss.item() to losses.", id="no owner"),
        pytest.param(("losses",), " ! A leak: losses keeps more tensors", id="the verdict names another"),
    ],
)
def test_under_the_verdict_stands_what_to_do_or_else_what_it_is_about(owners, line):
    seen = moment(row(Tensor(400, "batch")), used_mib=600)
    answer = verdict(seen, seen.devices[0], looks=[look_holders(seen, seen.devices[0])])
    assert text_of(draw_advice((replace(FINDING, owners=owners),), answer, 80)).startswith(line)


def test_under_the_verdict_the_cure_of_its_holder_comes_before_what_helps_in_general():
    seen = moment(row(Tensor(400, "batch")), used_mib=600)
    answer = verdict(seen, seen.devices[0], looks=[look_holders(seen, seen.devices[0])])
    failed = replace(FINDING, kind="out_of_memory", owners=(), remedy="Use a smaller batch.")
    cure = replace(FINDING, owners=("batch",), remedy="del batch")
    other = replace(FINDING, owners=("losses",))
    assert text_of(draw_advice((failed, cure), answer, 80)).startswith(" > del batch")
    assert text_of(draw_advice((failed, other), answer, 80)).startswith(" > Use a smaller batch.")
    assert text_of(draw_advice((failed,), answer, 80)).startswith(" > Use a smaller batch.")


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        (1, [" > Append loss.item() to losses, so that th…"]),
        (2, [" > Append loss.item() to losses, so that", "   the graph of each step is freed."]),
    ],
)
def test_what_to_do_takes_the_lines_that_there_are(most, lines):
    finding = replace(
        FINDING, owners=(), remedy="Append loss.item() to losses, so that the graph of each step is freed."
    )
    assert text_of(draw_advice((finding,), None, 44, most)).splitlines() == lines


def test_what_does_not_fit_beside_a_holder_is_wrapped_below_it():
    notes = "each step needs 168 MiB of it, 8.3 MiB of it is stuck beside live blocks"
    seen = moment(row(Tensor(400, "batch")), used_mib=600)
    answer = verdict(seen, seen.devices[0], looks=[look_holders(seen, seen.devices[0])])
    line = replace(answer.holders[0], holder=replace(answer.holders[0].holder, keeps=notes))
    text = text_of(draw_holders(replace(answer, holders=(line,)), 80))
    assert " ".join(text.split()).endswith(notes)
    assert max(map(len, text.splitlines())) <= 80


def test_weights_have_distinct_signs_and_colours():
    signs = [draw_finding(replace(FINDING, weight=weight), 60, is_current=False)[0][0] for weight in Weight]
    assert [(text.strip()[0], role) for text, role in signs] == [("!", "poor"), ("*", "fair"), ("-", "title")]


def test_a_finding_that_no_longer_holds_says_was():
    lines = draw_finding(replace(FINDING, until=1_795_176_000.0), 80, is_current=False)
    assert re.match(r" ~ Was, until \d\d:\d\d:\d\d: A leak: losses keeps", text_of(lines))
    assert "Append" not in text_of(lines)


def test_without_advice_the_answer_says_that_there_is_nothing_to_do():
    seen = moment(row(Tensor(4, "batch")), used_mib=600)
    answer = verdict(seen, seen.devices[0], looks=[look_holders(seen, seen.devices[0])])
    assert "Nothing to do" in text_of(draw_answer(answer, (replace(FINDING, weight=Weight.FACT),), 80))
    assert "What to do" in text_of(draw_answer(answer, (FINDING,), 80))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_screen(width):
    long = replace(FINDING, evidence=("x" * 300, "word " * 100))
    for is_current in (True, False):
        assert max(map(width_of, draw_finding(long, width, is_current=is_current, destination="Tensors"))) <= width


def fragmented(**keywords):
    kept = [row(Tensor(4, f"model.features[{n}]"), free=124, address=FAR * (n + 1)) for n in range(5)]
    return moment(*kept, segment(("free", 40)), used_mib=1300, num_ooms=1, peak_reserved_bytes=79 << 30, **keywords)


async def test_the_cause_is_two_keys_away():
    async with sitting(fragmented()) as at:
        await at.press("2")
        assert at.screen == "why"
        for size in SIZES:
            await at.resize(*size)
            assert "! Out of memory: an allocation failed once." in at.text, size
            assert "! Fragmentation: 5 large segments are held by small blocks" in at.text, size
            assert "What to do, the largest gain first" in at.text, size


async def test_the_cursor_moves_through_findings_and_keeps_them_visible():
    async with sitting(fragmented()) as at:
        await at.press("2")
        blocks = at.app.screen.query_one(Blocks)
        assert blocks.current.kind == "out_of_memory"
        seen = []
        for _ in range(8):
            seen.append(blocks.current.kind)
            assert blocks.current.title[:40] in at.text
            await at.press("down")
        assert seen[:2] == ["out_of_memory", "scattered"]
        assert seen[-1] in ("room", "gap")
        await at.press("home")
        assert "What to do" in at.text
        await at.press("pagedown")
        assert blocks.current.kind != "out_of_memory"
        await at.press("pageup")
        assert blocks.current.kind == "out_of_memory"


async def test_the_cursor_stays_on_its_finding_when_others_appear_above():
    calm = moment(segment(("free", 40)), used_mib=600, time=99.0)
    async with sitting(calm) as at:
        await at.press("2", "end")
        blocks = at.app.screen.query_one(Blocks)
        assert blocks.current.kind == "release"
        await at.deal(fragmented(time=100.0), fragmented(time=103.0))
        assert "out_of_memory" in [finding.kind for finding in at.app.attached.targets.current.answer.findings]
        assert blocks.current.kind == "release"


async def test_enter_jumps_to_the_memory_that_a_finding_points_at(monkeypatch):
    jumps = []

    class MapScreen(AttachScreen):
        NAME = "map"

        def compose_body(self):
            return iter(())

        def draw(self):
            pass

        def jump(self, address):
            jumps.append(address)

    monkeypatch.setattr("gputui.ui.screens.attach.map.MapScreen", MapScreen)
    async with sitting(fragmented()) as at:
        await at.press("2", "down", "enter")
        assert at.screen == "map"
    assert jumps == [FAR]


async def test_enter_on_a_finding_without_an_address_does_nothing():
    async with sitting(fragmented()) as at:
        await at.press("2", "enter")
        assert at.screen == "why"


BUSY_WORKER = Workers(1, 97.0, 0, is_proportional=True)


async def test_findings_use_process_and_device_readings_too():
    plain = moment()
    device = replace(plain.devices[0], driver=replace(plain.devices[0].driver, utilization_percent=30))
    loading = replace(plain, devices=(device,), host=replace(plain.host, workers=BUSY_WORKER))
    async with sitting(loading) as at:
        await at.press("2")
        assert "The device is 30% busy; the only DataLoader worker uses 97% of a core." in at.text


async def test_an_ended_process_keeps_its_findings():
    ended = replace(fragmented(time=101.0), ended=Disconnect(DisconnectKind.EXITED))
    async with sitting(fragmented(), ended) as at:
        await at.press("2")
        assert "Process 7 has ended" in at.text
        assert "! Fragmentation" in at.text
