"""The first sentence of a what-if whose trace ends with a request that failed."""

from __future__ import annotations

from array import array

import pytest

from gputui.explain.whatif.cases import AS_RECORDED, Answer, Case, Known, LargestBatch
from gputui.explain.whatif.replay.replay import Outcome
from gputui.explain.whatif.words import headline, largest_words
from gputui.units import GIB


def answer(case: Case, peak_gib: int, *, unmet: int = 0, failed_at: int | None = None) -> Answer:
    empty = array("Q")
    outcome = Outcome(peak_gib * GIB, peak_gib * GIB, 0, 0, 0, 0, failed_at, 1, empty, empty, unmet)
    known = Known.SCALED if case.batch else Known.ESTIMATED if case.changes else Known.EXACT
    return Answer(case, outcome, known)


BASELINE = answer(AS_RECORDED, 20, unmet=1, failed_at=900)
EXPANDABLE, SPLIT = Case("expandable_segments:True", "e:T"), Case("max_split_size_mb:128", "m:128")
HALF, EVALUATION = Case("all in bfloat16", changes=("bfloat16",)), Case("evaluation", changes=("no-grad",))
CHECKPOINTED = Case("each layer checkpointed", changes=("checkpointing",))
BATCH = Case("batch 12 instead of 16", batch=(16, 12))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            (answer(SPLIT, 19), answer(EXPANDABLE, 18), answer(HALF, 9)),
            "expandable_segments:True would have made room for the request that failed (exact).",
        ),
        (  # it never came to the request that failed, because another failed before
            (answer(EXPANDABLE, 18, failed_at=100), answer(HALF, 9), answer(EVALUATION, 3)),
            "No setting here makes room for the request that failed. All in bfloat16 would (estimated).",
        ),
        (
            (answer(EXPANDABLE, 20, unmet=1, failed_at=900), answer(EVALUATION, 3)),
            "No setting here makes room for the request that failed.",
        ),
        ((answer(BATCH, 15),), "Batch 12 instead of 16 would have made room for the request that failed (scaled)."),
        ((answer(BATCH, 20, unmet=1, failed_at=900),), "No case here makes room for the request that failed."),
    ],
)
def test_the_answer_is_what_would_have_made_room(answers: tuple[Answer, ...], words: str) -> None:
    assert headline(BASELINE, answers) == words


def test_a_device_that_is_too_small_is_answered_by_the_cheapest_change_that_fits():
    too_large = answer(AS_RECORDED, 20, failed_at=900)
    cases = (answer(EXPANDABLE, 19, failed_at=950), answer(CHECKPOINTED, 12), answer(HALF, 9))
    assert headline(too_large, cases).endswith(" Each layer checkpointed would fit: it would take 12.0 GiB.")


LARGEST = {
    "it fits at once": (LargestBatch(19, 60 * GIB, 2 * GIB), "is 19: it would reserve 60.0 GiB; one more sample costs"),
    "by emptying the cache": (
        LargestBatch(27, 79 * GIB, 2 * GIB, retries=2, without_retries=19),
        "is 27: it would reserve 79.0 GiB, after emptying its cache twice; 19 fits without that. One more sample costs",
    ),
    "only by emptying the cache": (
        LargestBatch(1, 79 * GIB, 2 * GIB, retries=5),
        "after emptying its cache 5 times; no batch fits without that.",
    ),
}


@pytest.mark.parametrize(("largest", "words"), LARGEST.values(), ids=LARGEST)
def test_the_largest_batch_says_what_the_device_would_do(largest, words):
    assert words in largest_words(largest)
