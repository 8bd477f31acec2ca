"""What the Why screen says about a cache of keys and values."""

import pytest

from gputui.explain.advice import findings
from gputui.explain.advice.held.holders import holders_of
from tests.explain.moments import key_value_cache, key_value_tensors


def found_in(seen):
    return next((finding for finding in findings(seen, 0) if finding.kind == "kv_cache"), None)


def test_a_cache_of_keys_and_values_has_tokens_layers_and_bytes_a_token():
    found = found_in(key_value_cache(32, (2, 8, 512, 1024)))
    assert found.title == (
        "The KV cache holds 512 tokens for each of 2 sequences in 2 layers: 128 MiB, 128 KiB a token."
    )
    assert found.evidence == ("It is in past_key_values.layers[*].keys and past_key_values.layers[*].values.",)


def test_a_cache_of_another_shape_has_its_size_alone():
    assert found_in(key_value_cache(32, (8, 1024))).title == "The KV cache takes 128 MiB."


LAYERS = range(8)
KEYS_AND_VALUES = ("k", "v")
SHAPED = {
    "paged, as in vLLM": (
        [f"engine.kv_caches[{layer}]" for layer in LAYERS],
        (2, 512, 16, 4, 64),
        16,
        "has room for 8,192 tokens in 512 blocks in 8 layers: 128 MiB, 16.0 KiB a token.",
    ),
    "tokens before heads, as in Llama": (
        [f"model.layers.{layer}.attention.cache_{kind}" for layer in LAYERS for kind in KEYS_AND_VALUES],
        (8, 1024, 8, 32),
        8,
        "holds 1,024 tokens for each of 8 sequences in 8 layers: 128 MiB, 16.0 KiB a token.",
    ),
    "lists of layers": (
        [f"self.{kind}_cache[{layer}]" for layer in LAYERS for kind in KEYS_AND_VALUES],
        (1, 8, 8192, 64),
        16,
        "holds 8,192 tokens in 8 layers: 256 MiB, 32.0 KiB a token.",
    ),
    "a cache for each session": (
        [f"sessions['{user}'].past.layers[{n}].{kind}" for user in "ab" for n in LAYERS for kind in ("keys", "values")],
        (1, 8, 8192, 64),
        16,
        "holds 8,192 tokens for each of 2 sequences in 8 layers: 512 MiB, 32.0 KiB a token.",
    ),
    "tuples": (
        [f"past_key_values[{layer}][{pair}] (chat.py:7 in reply)" for layer in LAYERS for pair in range(2)],
        (1, 8, 8192, 64),
        16,
        "holds 8,192 tokens in 8 layers: 256 MiB, 32.0 KiB a token.",
    ),
    "one tensor for all layers": (
        ["runner.kv_cache"],
        (2, 8, 512, 16, 8, 64),
        256,
        "has room for 8,192 tokens in 512 blocks in 8 layers: 256 MiB, 32.0 KiB a token.",
    ),
    "tokens of all requests in one dimension": (
        [f"pool.{kind}_buffer[{layer}]" for layer in LAYERS for kind in KEYS_AND_VALUES],
        (8192, 8, 64),
        16,
        "holds 8,192 tokens in 8 layers: 256 MiB, 32.0 KiB a token.",
    ),
}


@pytest.mark.parametrize(("names", "shape", "mib", "title"), SHAPED.values(), ids=SHAPED.keys())
def test_tokens_and_layers_of_caches_as_programs_lay_them_out(names, shape, mib, title):
    assert found_in(key_value_tensors(names, mib, shape)).title == f"The KV cache {title}"


def test_sessions_of_different_lengths_are_counted_together():
    names = [f"sessions[{n}].past.layers[{m}].{part}" for n in (0, 1) for m in (0, 1) for part in ("keys", "values")]
    shapes = [(1, 8, 512, 1024)] * 4 + [(1, 8, 256, 1024)] * 4
    title = "The KV cache holds 768 tokens of 2 sequences in 2 layers: 128 MiB, 171 KiB a token."
    assert found_in(key_value_tensors(names, 16, *shapes)).title == title


OF_ONE_CACHE = {
    "a list of layers": [f"engine.kv_caches[{layer}]" for layer in LAYERS],
    "pairs of keys and values": [f"past[{layer}][{pair}]" for layer in LAYERS for pair in range(2)],
    "layers by name": [f"caches['{kind}'].layers" for kind in KEYS_AND_VALUES],
}


@pytest.mark.parametrize("names", OF_ONE_CACHE.values(), ids=OF_ONE_CACHE)
def test_the_layers_of_a_cache_are_one_holder(names):
    assert held_in(key_value_tensors(names, 16, (1, 8, 8192, 64))) == ["the KV cache"]


OF_SESSIONS = {
    "in transformers": "sessions['{}'].layers[{}].keys (chat.py:9 in reply)",
    "pairs": "sessions[{}].past[{}][0]",
    "lists of layers": "sessions['{}'][{}]",
    "beside other things": "sessions[{}]['out'].past_key_values.layers[{}].values",
}


@pytest.mark.parametrize("name", OF_SESSIONS.values(), ids=OF_SESSIONS)
def test_what_keeps_many_caches_is_named_as_any_list_that_may_leak(name):
    seen = key_value_tensors([name.format(user, layer) for user in range(5) for layer in range(4)], 16, (1, 8, 512, 64))
    assert held_in(seen) == ["sessions"]
    found = next(finding for finding in findings(seen, 0) if finding.kind == "kept_variable")
    assert "keeps 320 MiB in 5 elements: a leak if it grows." in found.title
    assert found.remedy.startswith(("Delete the entries of sessions", "Append"))


def test_where_caches_are_is_said_once_for_all_sessions():
    names = [f"sessions['{user}'].layers[{layer}].keys" for user in "abcd" for layer in LAYERS]
    assert found_in(key_value_tensors(names, 16, (1, 8, 512, 64))).evidence == ("It is in sessions[*].layers[*].keys.",)


def held_in(seen):
    device = seen.devices[0]
    return [holder.name for holder in holders_of(device.layout, seen.containers)]
