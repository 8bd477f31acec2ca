"""A new category of memory or keeper is met by a decision in each place that goes by them."""

from __future__ import annotations

from pathlib import Path

import pytest

import gputui
from gputui.explain.advice.held.holders import FIRST_TO_GO
from gputui.explain.advice.rules import RULES
from gputui.explain.memory.parts import GIVES_WAY, TENSORS_SINCE
from gputui.model.attached.owners import KEEPERS, Keeper
from gputui.model.attached.tensors import CATEGORIES, Category, Storage
from gputui.model.decode import DecodeError, decode
from gputui.protocol import categories

pytestmark = pytest.mark.quick
PACKAGE = Path(gputui.__file__).parent


def test_each_category_has_its_facts_and_its_place():
    every = list(Category)
    assert list(CATEGORIES) == every
    assert {category.value for category in every} <= {*GIVES_WAY[TENSORS_SINCE]}
    assert {category.value for category in every} <= {*FIRST_TO_GO}
    assert {category.value for category in every} >= categories.OWNED


@pytest.mark.parametrize("fact", [*range(2), "letter", "short", "plural"])
def test_each_category_looks_like_no_other(fact: int | str):
    facts = CATEGORIES.values()
    shown = [row.colours[fact] if isinstance(fact, int) else getattr(row, fact) for row in facts]
    assert len(set(shown)) == len(shown)


def test_each_category_is_in_the_documents_description():
    text = (PACKAGE.parent / "docs" / "scripts.md").read_text()
    assert [category.value for category in Category if f'"{category.value}": 1' not in text] == [Category.NEWER.value]


def test_each_keeper_has_words_and_a_rule():
    assert set(KEEPERS) == set(Keeper)
    assert [keeper for keeper in Keeper if not keeper.facts.words] == [Keeper.NONE]
    assert [keeper for keeper in Keeper if not keeper.facts.rule] == [Keeper.NONE, Keeper.UNKNOWN]
    assert {facts.rule for facts in KEEPERS.values()} - {""} <= {rule.kind for rule in RULES}


STORAGE = {
    "device": 0,
    "address": 1,
    "size_bytes": 1,
    "category": "other",
    "owner": ["x"],
    "type": "Tensor",
    "shape": [1],
    "dtype": "int8",
    "keeper": "",
}


def test_what_a_later_probe_tells_apart_is_something_else_to_an_earlier_viewer():
    told = decode(Storage, {**STORAGE, "category": "of_later", "keeper": "of_later"})
    assert (told.category, told.keeper) == (Category.OTHER, Keeper.UNKNOWN)


@pytest.mark.parametrize("field", ["category", "keeper"])
def test_a_number_is_no_word(field: str):
    with pytest.raises(DecodeError):
        decode(Storage, {**STORAGE, field: 7})
