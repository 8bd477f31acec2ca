"""The parts of a server's device that only some servers have: quantised weights, and places for LoRA adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.serving.division import division
from gputui.explain.serving.words import headline, lines_of, use_words
from gputui.model.attached.serving import KvCache, KvUse, Serving
from gputui.model.attached.tensors import Category
from gputui.units import GIB, MIB
from tests.explain.moments import Tensor, moment, row
from tests.explain.serving.test_impossible import SERVER

TENSORS = row(
    Tensor(64, "model.layers.0.mlp.gate_up_proj.weight", Category.PARAMETER, dtype="float8_e4m3fn"),
    Tensor(32, "model.embed_tokens.weight", Category.PARAMETER, dtype="float16"),
    Tensor(16, "model.layers.0.mlp.gate_up_proj.lora_a_stacked[0]", Category.OTHER, dtype="float16"),
    Tensor(8, "model.layers.0.mlp.gate_up_proj.lora_b_stacked[1]", Category.OTHER, dtype="float16"),
    Tensor(4, "input_batch.token_ids", Category.OTHER, dtype="int32"),
    Tensor(128, "kv_caches[0]", Category.KV_CACHE, dtype="float16"),
)


@pytest.mark.parametrize(("quantization", "quantised", "plain"), [("fp8", 64, 32), (None, 0, 96)])
def test_they_are_lines_of_their_own(quantization: str | None, quantised: int, plain: int):
    profile = replace(SERVER.profile, weights_bytes=96 * MIB)
    serving = replace(SERVER, settings=replace(SERVER.settings, quantization=quantization), profile=profile)
    made = replace(moment(TENSORS, used_mib=2048), serving=serving)
    parts = division(made, made.devices[0])
    sizes = {part.key: part.bytes // MIB for part in parts}
    assert sum(part.bytes for part in parts) == 80 * GIB
    assert (sizes["weights"], sizes.get("quantised", 0), sizes["lora"], sizes["buffers"]) == (plain, quantised, 24, 4)
    assert "96.0 MiB are weights" in headline(serving, parts, 80 * GIB, "of the device")
    notes = {line.part.key: line.note for line in lines_of(serving, parts)}
    assert notes.get("quantised", "") == ("fp8, float8_e4m3fn" if quantization else "")
    assert notes["weights"] == ("float16" if quantization else "float8_e4m3fn")


@pytest.mark.parametrize(
    "name", ["batch_processor.inputs_and_outputs.attention_mask['full_attention']", "attention_mask (llama.py:9 in go)"]
)
def test_attention_masks_of_continuous_batching_are_a_line_whatever_leads_to_them(name: str):
    found = moment(row(Tensor(64, name, Category.OTHER), Tensor(4, "ids", Category.OTHER)), used_mib=2048)
    made = replace(found, serving=Serving("transformers", "5.24.0", "continuous batching"))
    parts = division(made, made.devices[0])
    sizes = {part.key: part.bytes // MIB for part in parts}
    assert (sizes["masks"], sizes["buffers"]) == (64, 4)
    assert headline(made.serving, parts, 80 * GIB, "of the device").endswith(" KV cache and 64.0 MiB attention masks.")


def test_requests_are_told_where_free_blocks_are_not_known():
    use = KvUse(blocks=4096, running=3, waiting=1, requests_read=3, longest_tokens=900)
    assert use_words(Serving("transformers", "5.24.0", "continuous batching", use=use)) == (
        "3 requests running, 1 waiting, the longest 900 tokens."
    )


def test_a_cache_that_no_look_has_named_yet_counts_as_the_server_says():
    found = moment(row(Tensor(8, "model.w", Category.PARAMETER), Tensor(66, None)), used_mib=2048)
    serving = Serving("transformers", "5.24.0", "continuous batching", cache=KvCache(64, block_bytes=MIB))
    parts = division(replace(found, serving=serving), found.devices[0])
    sizes = {part.key: part.bytes // MIB for part in parts}
    assert (sizes["kv_cache"], sizes["unnamed"]) == (64, 2)
