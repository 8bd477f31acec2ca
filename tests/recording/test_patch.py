"""Patches of JSON values: for any two values, the patch turns one into the other."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.files.recording.patch import PatchError, difference, patched

SMALL = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2, width=16) | st.sampled_from(["", "a", "b"])
VALUES = st.recursive(
    SMALL, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abcd"), inner), max_leaves=20
)


def text(value: object) -> str:
    """A value with its types, because True, 1 and 1.0 are equal in Python."""
    return json.dumps(value, sort_keys=True)


@given(VALUES, VALUES)
def test_a_patch_turns_the_old_value_into_the_new(old, new):
    through_a_file = json.loads(json.dumps(difference(old, new)))
    assert text(patched(old, through_a_file)) == text(new)


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_a_patch_turns_one_list_into_another(old, new):
    assert patched(old, difference(old, new)) == new


def test_unchanged_values_are_not_in_the_patch():
    old = {"blocks": [{"address": n, "state": "live"} for n in range(10_000)], "time": 1}
    new = {"blocks": [*old["blocks"][:5000], {"address": 7, "state": "free"}, *old["blocks"][5001:]], "time": 2}
    assert len(json.dumps(difference(old, new))) < 200


@given(VALUES, VALUES)
def test_an_invalid_patch_is_refused(old, wrong):
    with suppress(PatchError):
        patched(old, wrong)


@pytest.mark.parametrize("times", [10_000_000])
def test_a_small_patch_cannot_create_a_huge_list(times):
    parts = [[0, 1000]] * (times // 1000)
    with pytest.raises(PatchError, match="too long"):
        patched([0] * 1000, [2, parts])
