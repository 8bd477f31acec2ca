"""A server in its own words on the screens: Memory and Why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.commands.printed.attach import report
from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.documents.attach import attach_document
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.serving import (
    KvCache,
    KvGroup,
    KvTensor,
    KvUse,
    Serving,
    ServingProfile,
    ServingSettings,
)
from gputui.model.attached.tensors import Category
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.memory import draw_memory
from gputui.ui.drawing.attach.why import draw_answer
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.meters import ASCII
from gputui.units import GIB, MIB
from tests.explain.maps import pool, segment
from tests.explain.memory.test_need import BOTTOM, TOP, seen
from tests.explain.moments import Tensor, moment, row
from tests.ui.attach.sitting import sitting

PLAIN = Appearance(glyphs=ASCII)
GROUP = KvGroup(layers=32, block_size=16, heads=8, head_size=128, head_size_v=128, dtype="float16")
BLOCK_BYTES = 2 * MIB
SERVER = Serving(
    "vLLM", "0.33.0", "engine core",
    ServingSettings(
        dtype="float16", gpu_memory_utilization=0.5, max_model_len=8192, longest_of_model=131072, max_num_seqs=256,
        block_size=16, kv_cache_dtype="auto", enable_prefix_caching=True,
    ),
    ServingProfile(
        device_total_bytes=80 * GIB, free_before_bytes=79 * GIB, requested_bytes=40 * GIB, weights_bytes=15 * GIB,
        activation_peak_bytes=GIB, kv_available_bytes=8 * GIB,
    ),
    KvCache(4096, (GROUP,), (KvTensor(4096 * BLOCK_BYTES, layers=32),)),
    KvUse(blocks=4096, free_blocks=3095, prefix_blocks=12, running=10, waiting=2, requests_read=10, longest_tokens=900),
)  # fmt: skip
GRAPH_POOL = (0, 7)


def served(weights_mib: float = 15 * 1024, serving: Serving = SERVER) -> TargetMoment:
    """A moment of a server of 15 GiB of weights, of which so many MiB have a name, with a graph of 64 MiB."""
    tensors = [
        Tensor(weights_mib, "model.w", Category.PARAMETER, dtype="float16"),
        Tensor(8 * 1024, "kv_caches[0]", Category.KV_CACHE, dtype="float16"),
        Tensor(200, "sampler.counts", Category.OTHER),
    ]
    nameless = segment(("live", 15 * 1024 - weights_mib or 1), address=1 << 44)
    graph = segment(("live", 40), ("free", 24), address=1 << 45, pool_id=GRAPH_POOL)
    pools = {"pools": [pool(GRAPH_POOL, "not looked for")]}
    made = moment(row(*tensors, free=512), nameless, graph, used_mib=25 * 1024, keywords=pools)
    return replace(made, serving=serving)


def parts_of(made: TargetMoment) -> dict[str, int]:
    return {part["part"]: part["bytes"] for part in attach_document(made)["serving"]["division"]}


def answer(made: TargetMoment):
    device = made.devices[0]
    return in_servers_words(verdict(made, device, looks=(look_holders(made, device),)), made, device)


def test_each_byte_of_the_device_is_in_one_part():
    parts = parts_of(served())
    assert sum(parts.values()) == 80 * GIB
    assert parts["graphs"] == 64 * MIB
    assert parts["buffers"] == 200 * MIB
    assert parts["cached"] == 512 * MIB
    assert parts["left"] == 39 * GIB
    assert parts["kept"] == 80 * GIB - 25 * GIB - 39 * GIB


def test_weights_that_no_look_has_named_yet_count_as_the_server_says():
    parts = parts_of(served(weights_mib=4 * 1024))
    assert parts["weights"] == 15 * GIB
    assert "unnamed" not in parts


def test_memory_of_which_nobody_says_what_it_is_has_no_name_yet():
    without = replace(SERVER, profile=replace(SERVER.profile, weights_bytes=None))
    parts = parts_of(served(weights_mib=4 * 1024, serving=without))
    assert (parts["weights"], parts["unnamed"]) == (4 * GIB, 11 * GIB)


def test_without_the_profiling_run_free_memory_is_free():
    parts = parts_of(served(serving=replace(SERVER, profile=ServingProfile())))
    assert parts["free"] == 55 * GIB
    assert sum(parts.values()) == 80 * GIB


def test_the_first_screen_answers_where_it_went_and_how_long_requests_can_be():
    made = served()
    words = " ".join(text_of(draw_memory(made, made.devices[0], 80, PLAIN, answer(made))).split())
    assert words.startswith("Device 0: 80.0 GiB, as its server divides it")
    assert "K KV cache 8.0 GiB 10.0%" in words
    assert "KV blocks: 1,000 of 4,096 in use (24.4%), 12 keep a prefix. 10 requests running, 2 waiting" in words
    assert "max_model_len is 8,192; this KV cache allows up to 65,520" in words
    assert "131,056 with kv_cache_dtype=fp8" in words
    assert "The model's 131,072 need 16.0 GiB of KV cache." in words


@pytest.mark.parametrize("width", [38, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(width):
    made = served()
    lines = [*draw_memory(made, made.devices[0], width, PLAIN, answer(made)), *draw_answer(answer(made), (), width)]
    assert max(map(width_of, lines)) <= width


def test_why_has_the_division_in_place_of_holders():
    text = text_of(draw_answer(answer(served()), (), 80))
    assert "   15.0 GiB  19%  weights  float16\n" in text
    assert "    8.0 GiB  10%  KV cache  65,536 tokens, 128 KiB each, 32 layers\n" in text
    assert "free, left by gpu_memory_utilization" in text
    assert "sampler.counts" not in text


def test_a_program_without_an_engine_is_shown_as_before():
    made = replace(served(), serving=None)
    assert answer(made).served == ()
    assert "as its server divides it" not in text_of(draw_memory(made, made.devices[0], 80, PLAIN, answer(made)))
    assert attach_document(made)["serving"] is None


def test_a_scheduler_without_a_model_says_what_the_cache_holds():
    alone = replace(served(), devices=(), look=None, serving=replace(SERVER, role="engine core, without a model"))
    text = " ".join(report(alone, (), 80, in_color=False).split())
    assert "It holds no GPU memory. KV blocks: 1,000 of 4,096 in use (24.4%)" in text


async def test_of_a_server_the_present_is_shown_and_not_the_top_of_a_step():
    async with sitting(replace(seen(TOP, BOTTOM), serving=SERVER)) as at:
        assert "the top of a step" not in at.text
        assert "as its server divides it" in at.text
