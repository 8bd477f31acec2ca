"""The recordings of sick programs that the demonstration shows: the answer names the holder, and all parts add up."""

from __future__ import annotations

import re
import zlib

import pytest

from gputui.explain.advice.held.holders import device_holders, holders_of
from gputui.explain.answer.answers import Answer, Answers
from gputui.explain.memory.parts import OUTER, TENSORS_SINCE, drawn, parts_of
from gputui.explain.serving.division import division
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.sources.files.recording.chunks import HEADER_BYTES
from gputui.sources.files.recording.index import open_file, places_of
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.shipped import EXAMPLES, SERVER, SGLANG, TRAINING, WELL, Example, file_of
from gputui.sources.files.recording.story import Story
from tests.scale import some
from tests.sicknesses import LINE, SICK

ALL_BYTES = 420 * 1024
"""Of the recordings of sick programs together, in the wheel."""
WELL_BYTES = 100 * 1024
SICK_EXAMPLES = [example for example in EXAMPLES if example not in (TRAINING, WELL, SERVER, SGLANG)]


def by_name(examples: list[Example]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", examples, ids=[example.name for example in examples])


def answers_of(example: Example) -> tuple[Answer, Answer]:
    """What the screens say when it opens and at its end, having seen every moment until then."""
    recording = Recording(file_of(example))
    timeline, answers, answer = Timeline(), Answers(), Answer(None, ())
    at_opening = answer
    for moment in Story(recording).moments():
        timeline.add(moment)
        answer = answers.at(moment, moment.used_devices[0], timeline) if moment.used_devices else answer
        at_opening = answer if moment.time - recording.begins <= example.opens_at_s else at_opening
    return at_opening, answer


def wrong_sums(moment: TargetMoment, device: DeviceMoment) -> list[str]:
    """The screens whose rows do not add up to the counters of the same moment."""
    counters = device.statistics
    parts = parts_of(device)
    inside, on_bar = (sum(part.bytes for part in shown if part.key not in OUTER) for shown in (parts, drawn(parts)))
    held = sum(part.bytes for part in parts if part.key == "outside") + counters.reserved_bytes
    of_look = holders_of(device.layout, moment.containers) if device.layout else ()
    sums = {
        "memory": (inside, counters.reserved_bytes),
        "bar of memory": (on_bar, counters.reserved_bytes),
        "why": (sum(holder.bytes for holder in device_holders(device, of_look)), held),
    }
    if device.layout is not None:
        since = sum(part.bytes for part in parts if part.key == TENSORS_SINCE)
        sums["tensors"] = (sum(device.layout.by_category.values()) + since, counters.allocated_bytes)
        whole = device.layout.release.composition
        sums["map"] = (whole.reserved_bytes, device.layout.statistics.reserved_bytes)
    return [screen for screen, (rows, total) in sums.items() if rows != total]


@by_name(SICK_EXAMPLES)
def test_when_an_example_opens_and_at_its_end_the_answer_names_the_holder_and_the_remedy(example):
    sickness = SICK[example.name]
    for answer in answers_of(example):
        current = [finding for finding in answer.findings if finding.weight is not Weight.FACT and not finding.until]
        assert current, example.name
        first = current[0]
        assert first.kind == sickness.kind, first.title
        assert sickness.holder in " ".join((first.title, *first.owners, *first.evidence))
        assert sickness.remedy in first.remedy
        assert not sickness.line or LINE.search(first.title)
        assert answer.verdict is not None


@by_name(SICK_EXAMPLES)
def test_after_a_jump_to_where_an_example_opens_the_answer_is_the_same(example):
    recording = Recording(file_of(example))
    (timeline,) = Story(recording).advance(recording.begins + example.opens_at_s).values()
    moment = timeline.latest
    answer = Answers().at(moment, moment.used_devices[0], timeline)
    kinds = [finding.kind for finding in answer.findings if finding.weight is not Weight.FACT]
    assert kinds[:1] == [SICK[example.name].kind]


@by_name(list(EXAMPLES))
def test_at_every_moment_of_a_recording_the_rows_add_up_to_the_counters(example):
    moments = some(Story(Recording(file_of(example))).moments(), 3)
    wrong = [
        (moment.time, screens)
        for moment in moments
        for device in moment.used_devices
        if (screens := wrong_sums(moment, device))
    ]
    assert wrong == []
    assert any(device.layout for moment in moments for device in moment.devices)


def test_a_training_that_is_well_is_answered_with_what_a_step_needs():
    for answer in answers_of(WELL):
        assert answer.verdict is not None
        assert answer.verdict.sentence.startswith("Each step needs up to 6")
        assert "only within the step, most of it activations of model.blocks (" in answer.verdict.sentence
        title = next(finding.title for finding in answer.findings if finding.kind == "batch")
        assert title.startswith("A step needs about ")
        assert title.endswith(" GiB more for each sample of its batch.")


def test_a_server_is_answered_with_its_cache_and_what_keeps_requests_waiting():
    for answer in answers_of(SERVER):
        assert answer.verdict is not None
        assert answer.verdict.sentence.startswith(
            "vLLM 0.33.0, engine core: 15.0 GiB are weights and 54.2 GiB (68% of the device) KV cache"
        )
        first = next(finding for finding in answer.findings if finding.weight is not Weight.FACT)
        assert re.match(r"Requests wait for the KV cache: \d+ wait, \d+ run\.", first.title)
        assert "gpu_memory_utilization=0.95 29,757 blocks" in first.remedy


def test_an_sglang_is_answered_with_its_cache_and_the_requests_that_may_not_run():
    for answer in answers_of(SGLANG):
        assert answer.verdict is not None
        assert answer.verdict.sentence.startswith(
            "SGLang 0.5.23, scheduler: 15.0 GiB are weights and 51.4 GiB (65% of the device) KV cache"
        )
        first = next(finding for finding in answer.findings if finding.weight is not Weight.FACT)
        assert first.title.startswith("13 requests wait, as max_running_requests=32 run")


@by_name([SERVER, SGLANG])
def test_at_every_moment_a_servers_lines_add_up_to_the_device_and_its_blocks_to_the_cache(example):
    moments = Story(Recording(file_of(example))).moments()
    served = [moment for moment in moments if moment.serving and moment.used_devices[0].layout]
    assert len(served) > 30
    for moment in some(served, 3):
        device, serving = moment.used_devices[0], moment.serving
        assert sum(part.bytes for part in division(moment, device)) == value_of(device.driver.device_total_bytes)
        assert serving.cache.blocks * serving.cache.bytes_per_block == serving.cache.size_bytes
        assert 0 <= serving.use.free_blocks <= serving.use.blocks == serving.cache.blocks
        assert serving.use.running + serving.use.waiting <= 130


@by_name([WELL, SERVER, SGLANG, *SICK_EXAMPLES])
def test_a_recording_names_nothing_of_the_machine_where_it_was_made(example):
    recording = Recording(file_of(example))
    assert recording.notices == ()
    assert recording.about.hostname == "demo"
    assert example.opens_at_s + 5 < recording.ends - recording.begins < 90
    with open_file(file_of(example)) as file:
        text = b""
        for place in places_of(file)[0]:
            file.seek(place.offset + HEADER_BYTES)
            text += zlib.decompress(file.read(place.header.payload_bytes))
    commands = {SERVER: "python serve.py", SGLANG: "sglang::scheduler"}
    command = commands.get(example, f"python train.py {example.name}")
    assert f'"{command}"'.encode() in text
    for word in (b"/tmp", b"/home", b"/root", b"/work", b"site-packages", b"gputui-", b"envs"):
        assert word not in text, word


def test_the_recordings_are_small():
    assert sum(file_of(example).stat().st_size for example in SICK_EXAMPLES) < ALL_BYTES
    folder = file_of(SICK_EXAMPLES[0]).parent
    assert {path.stem for path in folder.iterdir()} == {
        example.name for example in (WELL, SERVER, SGLANG, *SICK_EXAMPLES)
    }
    assert max(file_of(example).stat().st_size for example in (WELL, SERVER, SGLANG)) < WELL_BYTES
