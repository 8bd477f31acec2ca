"""A new category of memory or keeper is met by a decision in each place that goes by them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gputui
from gputui.explain.advice.allocator.stuck import REMEDIES
from gputui.explain.advice.held.holders import FIRST_TO_GO
from gputui.explain.advice.rules import RULES
from gputui.explain.memory.parts import GIVES_WAY, TENSORS_SINCE
from gputui.explain.step.kinds import KIND_OF
from gputui.model.attached.tensors import OF_MODELS, STAYING, Category, Keeper
from gputui.probe.tensors import entries
from gputui.protocol.frames import VERSION

pytestmark = pytest.mark.quick
PACKAGE = Path(gputui.__file__).parent
OF_NO_PART_OF_A_STEP = {
    Category.KV_CACHE,
    Category.WORKSPACE,
    Category.OTHER,
    Category.UNATTRIBUTED,
    Category.NEWER,
}
"""What the Step screen and a what-if call "other"."""
OF_VERSION_5 = {
    Category: "parameter gradient optimizer_state buffer activation kv_cache workspace other unattributed newer",
    Keeper: " exception last_exception notebook_exception lost_exception notebook_output interpreter_output optimizer"
    " reducer cycle gradient_graph",
}


def test_each_category_has_a_place_in_what_goes_by_categories():
    every = set(Category)
    assert set(REMEDIES) == every
    assert {*KIND_OF, *OF_NO_PART_OF_A_STEP} == every
    assert {category.value for category in every} <= {*GIVES_WAY[TENSORS_SINCE]}
    assert {category.value for category in every} <= {*FIRST_TO_GO}


def test_the_probe_has_the_same_facts():
    assert {category.value for category in STAYING} == entries.STAYING
    assert {category.value for category in OF_MODELS} == entries.OWNED


@pytest.mark.parametrize(
    "form", [r"^\.role--part-(\w+) \{ color: ([^;]+);", r"^App:ansi \.role--part-(\w+) \{ color: (\w+);"]
)
def test_each_category_has_a_colour_of_its_own(form: str):
    colours = dict(re.findall(form, (PACKAGE / "ui" / "styles.tcss").read_text(), re.MULTILINE))
    chosen = [colours[category.value] for category in Category]
    assert len(set(chosen)) == len(chosen)


def test_each_category_is_in_the_documents_description():
    text = (PACKAGE.parent / "docs" / "scripts.md").read_text()
    assert [category.value for category in Category if f'"{category.value}": 1' not in text] == [Category.NEWER.value]


RULE_OF = {
    Keeper.EXCEPTION: "kept_by_exception",
    Keeper.LAST_EXCEPTION: "kept_by_exception",
    Keeper.NOTEBOOK_EXCEPTION: "kept_by_exception",
    Keeper.LOST_EXCEPTION: "kept_by_exception",
    Keeper.NOTEBOOK_OUTPUT: "kept_by_output",
    Keeper.INTERPRETER_OUTPUT: "kept_by_output",
    Keeper.OPTIMIZER: "kept_by_optimizer",
    Keeper.REDUCER: "gradient_buckets",
    Keeper.CYCLE: "kept_by_cycle",
    Keeper.GRADIENT_GRAPH: "kept_by_gradient_graph",
}
"""Which rule says what frees what a keeper keeps."""


def test_each_keeper_has_words_and_a_rule():
    keepers = set(Keeper) - {Keeper.NONE}
    assert [keeper for keeper in keepers if not keeper.words] == []
    assert set(RULE_OF) == keepers
    assert set(RULE_OF.values()) <= {rule.kind for rule in RULES}


@pytest.mark.parametrize("words", OF_VERSION_5, ids=lambda words: words.__name__)
def test_new_words_of_a_probe_come_with_a_new_version(words):
    told = "a viewer refuses a word that it does not know: raise VERSION in protocol/frames.py, then change this list"
    assert (VERSION, " ".join(words)) == (5, OF_VERSION_5[words]), told
