"""Which names are of caches of keys and values."""

import pytest

from gputui.probe.tensors.cache_names import is_of_cache, of_caches

CACHES = [
    "past_key_values.layers[3].keys",
    "cache.layers[0].values",
    "past_key_values[3][0]",
    "engine.kv_caches[7]",
    "runner.kv_cache",
    "worker.key_cache[2]",
    "self.v_cache",
    "model.layers.0.attention.cache_k",
    "model.layers.0.attention.kv_cache.k_cache",
    "module.cached_key",
    "pool.k_buffer[3]",
    "manager.batch_processor.cache.cache_tensor",
    "self.past_kv[0]",
    "self.cache['k']",
    "cache[3]['v']",
    "self.cache[3].k",
    "sessions['ana'].caches[0].keys",
    "past[3][1]",
]
OTHERS = [
    "model.layers.0.key.weight",
    "agent.values",
    "replay.value_buffer",
    "self.cache[3]",
    "keys",
    "dataset.cache_tensor",
    "encoder.layers[0].weight",
    "kv",
    "cache['x']",
    "local.cache['key']",
    "cache[3].value",
    "cache.valid",
    "past[3]",
    "past[3][2]",
]


@pytest.mark.parametrize("name", CACHES)
def test_names_of_caches_of_keys_and_values(name):
    assert is_of_cache(name)
    assert of_caches(["x", name, "model.weight"]) == [1]


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_other_tensors(name):
    assert not is_of_cache(name)
    assert of_caches([name]) == []
