"""The parts of a server's device that only some servers have: quantised weights, and places for LoRA adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.advice import findings
from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.documents.attach import attach_document
from gputui.explain.serving.division import division
from gputui.explain.serving.words import headline, lines_of, use_words
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.serving import KvCache, KvUse, Serving
from gputui.model.attached.tensors import Category
from gputui.units import GIB, MIB
from tests.explain.maps import pool
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
    assert headline(made.serving, parts, 80 * GIB, "of the device").endswith(" weights and 64.0 MiB attention masks.")


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


POOL = (1, 0)
WEIGHTS_MIB, CACHE_MIB, OTHER_MIB, CONTEXT_MIB = 16 * 1024, 40 * 1024, 100, 600


def asleep_moment(used_mib: float, others_mib: float = 0) -> TargetMoment:
    """A server with its weights and its cache in `MemPool`s, and what NVML shows of it."""
    tensors = (
        Tensor(WEIGHTS_MIB, "model.w", Category.PARAMETER),
        Tensor(CACHE_MIB, "kv_caches[0]", Category.KV_CACHE),
    )
    pooled = []
    for number, tensor in enumerate(tensors):
        made, storages = row(tensor, address=(number + 1) << 44)
        pooled.append((replace(made, pool_id=POOL), storages))
    others = row(Tensor(OTHER_MIB, "input_batch.token_ids", Category.OTHER))
    pools = [pool(POOL, "torch.cuda.MemPool")]
    found = moment(*pooled, others, used_mib=used_mib, others_mib=others_mib, keywords={"pools": pools})
    return replace(found, serving=replace(SERVER, cache=KvCache(CACHE_MIB, block_bytes=MIB)))


@pytest.mark.parametrize(
    ("used_mib", "there", "words"),
    [
        (CONTEXT_MIB + OTHER_MIB, set(), "sleeps: until it wakes up, 56.0 GiB of weights and KV cache are not on"),
        (CONTEXT_MIB + OTHER_MIB + WEIGHTS_MIB, {"weights"}, "until it wakes up, 40.0 GiB of KV cache are not on"),
        (CONTEXT_MIB + OTHER_MIB + WEIGHTS_MIB + CACHE_MIB, {"weights", "kv_cache"}, "16.0 GiB are weights and"),
    ],
    ids=["asleep", "its weights are awake", "awake"],
)
def test_what_sleeps_is_not_on_the_device(used_mib: float, there: set[str], words: str):
    found = asleep_moment(used_mib)
    parts = division(found, found.devices[0])
    sizes = {part.key: part.bytes // MIB for part in parts}
    assert sum(part.bytes for part in parts) == 80 * GIB
    assert {"weights", "kv_cache"} & set(sizes) == there
    assert (sizes["outside"], sizes["buffers"]) == (CONTEXT_MIB, OTHER_MIB)
    looked = (look_holders(found, found.devices[0]),)
    told = in_servers_words(verdict(found, found.devices[0], looks=looked), found, found.devices[0])
    assert words in told.sentence
    assert (attach_document(found)["serving"]["asleep_bytes"] > 0) == (there != {"weights", "kv_cache"})


@pytest.mark.parametrize(("others_mib", "titles"), [
    (30 * 1024, ["This server could not wake up: it needs 56.0 GiB, and 49.3 GiB are free."]), (20 * 1024, []),
])  # fmt: skip
def test_a_server_that_could_not_wake_up_is_told(others_mib: float, titles: list[str]):
    found = findings(asleep_moment(700, others_mib), 0)
    assert [finding.title for finding in found if finding.kind == "would_not_wake"] == titles
