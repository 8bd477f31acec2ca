"""Every reader of foreign bytes: the corpus replayed, and inputs generated from the formats by hypothesis."""

from __future__ import annotations

import json
import pickletools
from functools import lru_cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputui.protocol import frames
from tests.fuzz.black_boxes import FalseBlackBox
from tests.fuzz.false_probe import mutated, true_messages
from tests.fuzz.mutations import Mutator
from tests.fuzz.targets import CORPUS, MESSAGES, TARGETS
from tests.scale import scaled


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_read_or_refused(name):
    paths = sorted((CORPUS / name).iterdir())
    assert paths
    for path in paths:
        read_or_refuse(name, path)


def read_or_refuse(name, path):
    TARGETS[name](path.read_bytes())


NAMES = """
    type protocol interval_s how when wait_s label time pid command python torch rank world_size devices statistics
    settings map inventory cost problems segments blocks storages pause_ms probe_cpu_ms device index uuid
    name took_s reason history
    traces frames stacks recording max_events count actions addresses sizes_bytes streams times_us
    requested_bytes device_free_bytes device_total_bytes thread message stack error is_exit
"""
FIELDS = st.sampled_from(NAMES.split())
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["walk", "scan", "", "now", "changed", "hello", "look", "\ud800", "\x1b[2J"]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(FIELDS, inner, max_size=6))
)
TYPES = st.sampled_from(
    [
        *MESSAGES,
        "step",
        "failure",
        "ended",
        "hello",
        "statistics",
        "look",
        "mark",
        "action",
        "bye",
        "refused",
        "failed",
        "x",
    ]
)
OBJECTS = st.builds(lambda kind, fields: {**fields, "type": kind}, TYPES, st.dictionaries(FIELDS, VALUES, max_size=12))
PAYLOADS = st.one_of(
    OBJECTS.map(lambda message: json.dumps(message).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
    st.integers(1, 1200).map(lambda depth: b'{"type":"look","how":' + b"[" * depth + b"]" * depth + b"}"),
)
STREAMS = st.builds(
    lambda step, payloads, rest: bytes([step]) + b"".join(map(frames.frame, payloads)) + rest,
    st.integers(0, 255),
    st.lists(PAYLOADS, max_size=4),
    st.sampled_from([b"", b"g", b"gptu", b"gptu\xff\xff\xff\xff", b"GET /", b"gptu\0\0\0\x02{"]),
)

SNAPSHOTS = [path.read_bytes() for path in sorted((CORPUS / "snapshots").iterdir())]
INSTRUCTIONS = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
CHANGES = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.integers(0, 2), st.binary(max_size=4) | st.sampled_from(INSTRUCTIONS)),
    min_size=1,
    max_size=6,
)

RECORDS = st.tuples(
    st.one_of(st.floats(0, 10), VALUES),
    st.one_of(st.just(7), VALUES),
    st.sampled_from(["message", "surroundings", "recording", "look_taken", "x"]),
    st.one_of(OBJECTS, VALUES),
)
CHUNKS = st.one_of(
    st.lists(RECORDS, max_size=4).map(lambda records: b"1" + json.dumps(records).encode()),
    OBJECTS.map(lambda look: b"2" + json.dumps(look).encode()),
    VALUES.map(lambda change: b"3" + json.dumps(change).encode()),
)
RECORDINGS = st.builds(
    lambda opening, chunks: b"\0" + opening + b"\n" + b"\n".join(chunks),
    st.sampled_from([b"", *((CORPUS / "recordings" / "opening").read_bytes()[1:].splitlines()[:1])]),
    st.lists(CHUNKS, max_size=6),
)

BOX_LINES = (CORPUS / "black_boxes" / "messages").read_bytes()[1:].splitlines()
BLACK_BOXES = st.lists(
    st.one_of(st.sampled_from(BOX_LINES), OBJECTS.map(lambda message: json.dumps(message).encode())), max_size=6
).map(lambda lines: b"\0" + b"\n".join(lines))


@pytest.mark.long
@settings(max_examples=scaled(50, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.sampled_from(SNAPSHOTS), changes=CHANGES)
def test_changed_snapshots_are_opened_or_refused(data, changes):
    for place, removed, put in changes:
        at = place % len(data)
        data = data[:at] + put + data[at + removed :]
    TARGETS["snapshots"](data)


@pytest.mark.long
@settings(max_examples=scaled(15, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=RECORDINGS)
def test_generated_recordings_are_read_or_refused(data):
    TARGETS["recordings"](data)


@pytest.mark.long
@settings(max_examples=scaled(15, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=BLACK_BOXES)
def test_generated_black_boxes_are_read_or_refused(data):
    TARGETS["black_boxes"](data)


@lru_cache
def true_step():
    return {"type": "step", **true_messages()["step"]}


@pytest.mark.long
@settings(max_examples=scaled(4, 10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 1 << 30))
def test_mutated_steps_and_black_boxes_are_read_or_refused(number):
    random = Random(number)
    TARGETS["black_boxes"](FalseBlackBox(random).data)
    step = mutated(Mutator(random), "step", true_step(), random)
    TARGETS["replies"](b"\0" + json.dumps(step).encode())


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=scaled(15, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stream=STREAMS)
def test_generated_streams_are_read_or_refused(name, stream):
    TARGETS[name](stream)


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=scaled(30, 50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stream=st.binary(max_size=200) | st.binary(max_size=100).map(lambda rest: b"\x07gptu\0\0\0" + rest))
def test_random_bytes_are_read_or_refused(name, stream):
    TARGETS[name](stream)


ANSWERS = [json.loads(path.read_bytes()) for path in sorted((CORPUS / "ras_answers").iterdir()) if path.name != "half"]


def places_in(value, at=()):
    """Where each part of a document is."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, part in parts for place in places_in(part, (*at, key)))]


@pytest.mark.long
@settings(max_examples=scaled(50, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    answer=st.sampled_from(ANSWERS),
    changes=st.lists(st.tuples(st.integers(0, 1000), VALUES | st.integers(-3, 9)), min_size=1, max_size=4),
)
def test_changed_answers_of_nccl_are_read_or_refused(answer, changes):
    whole = {"answer": json.loads(json.dumps(answer))}
    for number, value in changes:
        places = places_in(whole)[1:]
        *path, last = places[number % len(places)]
        holder = whole
        for key in path:
            holder = holder[key]
        holder[last] = value
    TARGETS["ras_answers"](json.dumps(whole["answer"]).encode())
