"""Summaries of many names."""

from __future__ import annotations

import pytest

from gputui.explain.owners.names import counted, family, listed, patterns, singular
from tests.explain.named import named

FAMILIES = {
    "model.layers.11.mlp.0.weight": "model.layers.*.mlp.*.weight",
    "losses[3] (train.py:23 in step)": "losses[*]",
    "optimizer.state[model.layers.0.norm1.weight].exp_avg": "optimizer.state[model.layers.*.norm1.weight].exp_avg",
    "model.layers.0": "model.layers.*",
    "logits": "logits",
}
ELEMENTS = {
    "losses": "loss",
    "trainer.val_outputs": "val_output",
    "boxes": "box",
    "history['preds']": "pred",
    "outputs['val'][3]": "output",
    "probe.features['0.0']": "feature",
    "cache": "tensor",
    "self.kv_caches": "kv_cache",
    "batches": "batch",
    "entries": "entry",
    "indices": "index",
    "bias": "tensor",
    "biases": "bias",
    "positions['pos']": "position",
    "status": "tensor",
    "axis": "tensor",
    "class": "tensor",
}
LISTS = {(): "", ("a",): "a", ("a", "b"): "a and b", ("a", "a", "b"): "a and b", tuple("abcde"): "a, b, c and 2 more"}


@pytest.mark.parametrize(("name", "expected"), FAMILIES.items(), ids=FAMILIES)
def test_members_of_a_list_or_of_a_row_of_layers_share_a_name(name, expected):
    assert family(named(name)) == expected


PATTERNS = {
    "entries of a dictionary": ([f"checkpoint['model']['{n}.weight']" for n in "abc"], "checkpoint['model'][*]"),
    "entries of entries": ([f"sessions['u{n}']['past']" for n in range(3)], "sessions[*]['past']"),
    "attributes": ([f"agent.{name} (a.py:3 in act)" for name in ("memory", "last", "mean")], "agent.*"),
}


@pytest.mark.parametrize(("names", "expected"), PATTERNS.values(), ids=PATTERNS)
def test_entries_of_one_dictionary_and_attributes_of_one_object_share_a_name(names, expected):
    assert set(patterns(map(named, names), folds_attributes=True).values()) == {expected}
    assert list(patterns(names[:2], folds_attributes=True).values()) == [family(name) for name in names[:2]]


@pytest.mark.parametrize(("name", "expected"), ELEMENTS.items(), ids=ELEMENTS)
def test_an_element_has_the_name_of_its_container_in_the_singular(name, expected):
    assert singular(name) == expected


@pytest.mark.parametrize(("names", "expected"), LISTS.items(), ids=map(str, LISTS))
def test_a_list_of_names_reads_as_a_phrase(names, expected):
    assert listed(names) == expected


def test_a_count_of_one_is_singular():
    assert [counted(1, "block"), counted(1234, "block")] == ["1 block", "1,234 blocks"]
