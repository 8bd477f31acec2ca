"""What a server would have with other flags, beside what a real one had: vLLM 0.33.0 on a fake H100."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.errors import UsageError
from gputui.explain.documents.serving import result_document
from gputui.explain.serving.asked import flags_of, is_of_server
from gputui.explain.serving.capacity import (
    blocks_of_request,
    longest_in_words,
    longest_request,
    more_requests,
    tokens_in,
)
from gputui.explain.serving.other_flags import Flags, with_flags
from gputui.explain.serving.words import length_words
from gputui.model.attached.serving import (
    KvCache,
    KvGroup,
    KvTensor,
    KvUse,
    Serving,
    ServingProfile,
    ServingSettings,
)

LLAMA = KvGroup(layers=4, block_size=16, heads=8, head_size=64, head_size_v=64, dtype="float16")
SETTINGS = ServingSettings(
    dtype="float16", gpu_memory_utilization=0.5, max_model_len=1024, longest_of_model=16777216, max_num_seqs=1024,
    max_num_batched_tokens=16384, block_size=16, kv_cache_dtype="auto",
)  # fmt: skip
MEASURED = ServingProfile(
    device_total_bytes=84986036224, free_before_bytes=84409319424, requested_bytes=42493018112,
    consumed_bytes=2418016256, activation_peak_bytes=219281408, kv_available_bytes=39855720448,
)  # fmt: skip
SERVER = Serving(
    "vLLM", "0.33.0", "engine core", SETTINGS, MEASURED,
    KvCache(304075, (LLAMA,), (KvTensor(304075 * 131072, layers=4),)),
)  # fmt: skip


def test_as_it_is_it_has_the_blocks_that_it_has():
    found = with_flags(SERVER, Flags())
    assert (found.blocks, found.tokens, found.error, found.is_exact) == (304075, 304075 * 16, "", True)


def test_more_of_the_device_gives_the_blocks_that_the_real_one_had():
    assert with_flags(SERVER, Flags(gpu_memory_utilization=0.9)).blocks == 563431


def test_half_as_wide_elements_and_twice_as_large_blocks_are_as_many_blocks():
    found = with_flags(SERVER, Flags(kv_cache_dtype="fp8", block_size=32))
    assert found.blocks == 304075
    assert found.tokens == 304075 * 32


REFUSED = {
    "more than is free": (Flags(gpu_memory_utilization=0.999), "78.6 GiB are free on startup, less than"),
    "no memory for blocks": (Flags(gpu_memory_utilization=0.01), "no memory is left for the blocks"),
    "one request too long": (Flags(max_model_len=304075 * 16), "4,865,024 tokens fit"),
}


@pytest.mark.parametrize(("flags", "words"), REFUSED.values(), ids=REFUSED)
def test_a_server_that_would_not_start_says_why(flags, words):
    error = with_flags(replace(SERVER, settings=replace(SETTINGS, max_num_seqs=1)), flags).error
    assert error.startswith("it does not start")
    assert words in error


def test_the_longest_request_leaves_out_the_block_that_is_never_used():
    longest = longest_request(304075, (LLAMA,), SETTINGS)
    assert longest == 304074 * 16
    assert blocks_of_request((LLAMA,), longest, SETTINGS) == 304074


def test_another_device_has_as_much_more_cache_as_it_is_larger():
    found = with_flags(SERVER, Flags(device_total_bytes=2 * MEASURED.device_total_bytes))
    assert found.kv_bytes == MEASURED.kv_available_bytes + MEASURED.requested_bytes


def test_much_longer_tables_make_the_result_about_right():
    found = with_flags(SERVER, Flags(max_model_len=131072))
    tables_bytes = 1024 * (131072 // 16 - 1024 // 16) * 4
    assert found.kv_bytes == MEASURED.kv_available_bytes - tables_bytes
    assert not found.is_exact


def test_two_devices_hold_half_of_the_weights_and_of_each_block():
    profile = replace(MEASURED, weights_bytes=8 << 30)
    found = with_flags(replace(SERVER, profile=profile), Flags(tensor_parallel_size=2))
    assert found.kv_bytes == MEASURED.kv_available_bytes + (4 << 30)
    assert found.blocks == found.kv_bytes // (131072 // 2)
    assert not found.is_exact
    assert with_flags(replace(SERVER, profile=profile), Flags(tensor_parallel_size=1)).is_exact


def test_a_head_of_keys_and_values_is_not_divided():
    latent = replace(SERVER, cache=replace(SERVER.cache, groups=(replace(LLAMA, heads=1),)))
    assert with_flags(latent, Flags(tensor_parallel_size=8)).blocks == 304075


def test_without_cuda_graphs_the_cache_has_what_was_kept_for_them():
    profile = replace(MEASURED, graphs_estimate_bytes=1 << 30)
    found = with_flags(replace(SERVER, profile=profile), Flags(enforce_eager=True))
    assert found.kv_bytes == MEASURED.kv_available_bytes + (1 << 30)
    assert not found.is_exact
    assert with_flags(
        replace(SERVER, settings=replace(SETTINGS, enforce_eager=True)), Flags(enforce_eager=True)
    ).is_exact


def test_layers_with_a_window_keep_no_more_than_that_and_a_batch():
    window = replace(LLAMA, sliding_window=4096)
    assert blocks_of_request((LLAMA,), 131072, SETTINGS) == 8192
    assert blocks_of_request((window,), 131072, SETTINGS) == -(-(4095 + 16384) // 16) + 1
    assert tokens_in(1000, (LLAMA, window), SETTINGS) < tokens_in(1000, (LLAMA,), SETTINGS)


def test_where_all_layers_have_a_window_requests_may_have_any_length():
    cache = replace(SERVER.cache, groups=(replace(LLAMA, sliding_window=4096),))
    server = replace(SERVER, cache=cache)
    assert length_words(server).startswith("max_model_len is 1,024; this KV cache allows any length. The model was")
    found = with_flags(server, Flags())
    assert longest_in_words(found.longest) == "any length"
    assert result_document(found)["longest_request_tokens"] is None


def test_allocations_of_single_layers_add_up_in_older_versions():
    tensors = tuple(KvTensor(1 << 20, shared_by=1) for _ in range(4))
    assert KvCache(32, (LLAMA,), tensors).bytes_per_block == 131072
    newer = tuple(KvTensor(4 << 20, layers=2) for _ in range(2))
    assert KvCache(32, (LLAMA,), newer).bytes_per_block == 131072


def test_as_many_more_requests_fit_as_free_blocks_and_the_flag_allow():
    use = KvUse(blocks=1001, free_blocks=900, running=10)
    assert more_requests(replace(SERVER, use=use)) == 90
    assert more_requests(replace(SERVER, use=use, settings=replace(SETTINGS, max_num_seqs=16))) == 6
    assert more_requests(replace(SERVER, use=replace(use, running=0))) is None


MISSING = {
    "the cache's size": replace(SERVER, cache=replace(SERVER.cache, tensors=(), groups=())),
    "the size of layers of several kinds": replace(
        SERVER, cache=replace(SERVER.cache, tensors=(), groups=2 * SERVER.cache.groups)
    ),
    "the profiling run": replace(SERVER, profile=ServingProfile()),
    "the longest request": replace(SERVER, settings=replace(SETTINGS, max_model_len=None)),
    "a size of blocks that is none": replace(SERVER, cache=replace(SERVER.cache, tensors=(KvTensor(1, layers=1),))),
}


def test_where_the_layers_lie_need_not_be_known_if_all_are_of_one_kind():
    without = replace(SERVER, cache=replace(SERVER.cache, tensors=()))
    flags = Flags(gpu_memory_utilization=0.9)
    assert with_flags(without, flags) == with_flags(SERVER, flags)


@pytest.mark.parametrize("server", MISSING.values(), ids=MISSING)
def test_without_what_it_follows_from_there_is_no_result(server):
    assert with_flags(server, Flags(gpu_memory_utilization=0.9)) is None


def test_flags_are_read_as_people_write_them():
    assert flags_of("--max-model-len:131072,kv_cache_dtype:fp8") == Flags(max_model_len=131072, kv_cache_dtype="fp8")
    assert flags_of("max_model_len:32K") == Flags(max_model_len=32768)
    both = flags_of("tensor-parallel-size:2,enforce-eager:true")
    assert both == Flags(tensor_parallel_size=2, enforce_eager=True)
    assert both.words == "tensor_parallel_size=2, enforce_eager=true"
    assert is_of_server("gpu_memory_utilization:0.9")
    assert is_of_server("max-num-seqs:512")
    assert not is_of_server("expandable_segments:True")


WRONG = {
    "graphs that are not there": "enforce_eager:false",
    "no flag": "max_seqs:3,block_size:16",
    "no number": "max_model_len:long",
    "a length that is not known": "max_model_len:auto",
    "none at all": "block_size:0",
    "more than the device": "gpu_memory_utilization:1.5",
    "no type": "kv_cache_dtype:fp7",
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_a_wrong_flag_is_named(words):
    with pytest.raises(UsageError):
        flags_of(words)
