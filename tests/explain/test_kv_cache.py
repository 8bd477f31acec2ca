"""What the Why screen says about a cache of keys and values."""

from gputui.explain.advice import findings
from tests.explain.moments import key_value_cache


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
