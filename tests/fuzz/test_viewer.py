"""The viewer under hostile probes and recordings: a bounded number of the cases of `python -m tests.fuzz.viewer`."""

from __future__ import annotations

from random import Random

import pytest

from gputui.model.decode import DecodeError
from gputui.sources.probe.messages import message_of
from tests.fuzz.false_probe import KINDS, mutated, true_messages
from tests.fuzz.mutations import CONTROL_SEQUENCES, Mutator
from tests.fuzz.pressing import Figures, check_output
from tests.fuzz.viewer import run_case
from tests.scale import scaled

CASES = {"probes": (1, 4), "recording": (1, 3), "black box": (1, 2), "terminal": (1, 1)}
"""How many of each kind are run each day, and how many each night for each unit of the scale."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, number, id=f"{kind} {number}")
        for kind, counts in CASES.items()
        for number in range(scaled(*counts))
    ],
)
def test_random_keys_are_served_whatever_a_target_sends(kind, number, record_property):
    figures = Figures()
    run_case(number, figures, kind)
    record_property("count", str(figures))
    assert figures.cases[kind] == 1
    assert sum(figures.sent.values()) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_true_messages_are_accepted_whole(kind):
    message = {"type": kind, **true_messages()[kind]}
    decoded = message_of(message)
    assert isinstance(decoded, KINDS[kind])
    if message.get("map"):
        assert (decoded.look if kind == "step" else decoded).map is not None


@pytest.mark.parametrize("kind", KINDS)
def test_most_mutations_are_of_the_kind_that_they_claim(kind):
    mutator, true = Mutator(Random(1)), {"type": kind, **true_messages()[kind]}
    for _ in range(20):
        message_of(mutated(mutator, kind, true, Random(2)))
    outcomes = [_is_accepted(mutator.scrambled(true)) for _ in range(40)]
    assert outcomes.count(False) > 10


def _is_accepted(message: dict) -> bool:
    try:
        message_of(message)
    except (DecodeError, KeyError):
        return False
    return True


@pytest.mark.parametrize("output", ["\x1b[99m", CONTROL_SEQUENCES, "x\x1b]0;owned", "\x9b2J", "a\u202eb"])
def test_the_check_of_the_output_fails_on_control_sequences(output):
    with pytest.raises(AssertionError):
        check_output(f"\x1b[1;1Htext\x1b[31m{output}")
