"""What the Why screen says about a cache of keys and values."""

from dataclasses import replace

from gputui.explain.advice import findings
from gputui.model.tensors import Category
from tests.explain.moments import Tensor, moment, row


def cache(mib: float, shape: tuple[int, ...]):
    names = [f"past_key_values.layers[{layer}].{kind}" for layer in range(2) for kind in ("keys", "values")]
    segment, storages = row(*(Tensor(mib, name, Category.KV_CACHE) for name in names))
    return moment((segment, [replace(storage, shape=shape) for storage in storages]))


def found_in(seen):
    return next((finding for finding in findings(seen, 0) if finding.kind == "kv_cache"), None)


def test_a_cache_of_keys_and_values_has_tokens_layers_and_bytes_a_token():
    found = found_in(cache(32, (2, 8, 512, 1024)))
    assert found.title == (
        "The KV cache holds 512 tokens for each of 2 sequences in 2 layers: 128 MiB, 128 KiB a token."
    )
    assert found.evidence == ("It is past_key_values.layers[*].keys and past_key_values.layers[*].values.",)


def test_a_cache_of_another_shape_has_its_size_alone():
    assert found_in(cache(32, (8, 1024))).title == "The KV cache takes 128 MiB."


def test_a_small_cache_is_not_worth_a_sentence():
    assert found_in(cache(1, (2, 8, 16, 1024))) is None
