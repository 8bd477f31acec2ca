"""What is said where the requests of a server wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.advice import findings
from gputui.explain.serving.words import use_words
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
from gputui.units import GIB, MIB
from tests.explain.moments import Tensor, moment, row

SERVER = Serving(
    "vLLM", "0.33.0", "engine core",
    ServingSettings(gpu_memory_utilization=0.5, max_model_len=1024, max_num_seqs=8, dtype="float16"),
    ServingProfile(
        device_total_bytes=80 * GIB, free_before_bytes=79 * GIB, requested_bytes=40 * GIB, kv_available_bytes=GIB
    ),
    KvCache(1024, (KvGroup(4, 16, 8, 64, 64, "float16"),), (KvTensor(GIB, layers=4),)),
)  # fmt: skip


def kinds(**use: int) -> dict:
    seen = moment(row(Tensor(1024, "kv_caches[0]", Category.KV_CACHE)), used_mib=2048)
    serving = replace(SERVER, use=KvUse(blocks=1024, **use))
    return {finding.kind: finding for finding in findings(replace(seen, serving=serving), 0)}


def test_requests_that_wait_for_blocks_are_told_with_the_flags_that_give_more():
    found = kinds(free_blocks=3, running=4, waiting=9, preemptions=2, requests_read=4)["waits_for_blocks"]
    assert found.title == "Requests wait for the KV cache: 9 wait, 4 run."
    assert found.evidence == ("2 preemptions of running requests. 3 of 1,024 blocks are free.",)
    assert "kv_cache_dtype=fp8 2,048 blocks" in found.remedy
    assert "gpu_memory_utilization=0.95" in found.remedy


def test_requests_wait_for_blocks_too_where_fewer_are_free_than_the_longest_has():
    use = {"free_blocks": 90, "running": 4, "waiting": 9, "requests_read": 4}
    found = kinds(**use, longest_tokens=91 * 16)["waits_for_blocks"]
    assert found.evidence == ("90 of 1,024 blocks are free. The longest request that runs has 91.",)
    assert "waits_for_blocks" not in kinds(**use, longest_tokens=90 * 16)


def test_requests_that_were_preempted_and_run_again_are_not_said_to_wait():
    found = kinds(free_blocks=3, running=5, waiting=0, preemptions=1, requests_read=5)["waits_for_blocks"]
    assert found.title == "The KV cache runs short: requests were preempted, and 5 run now."
    assert found.evidence == ("1 preemption of running requests. 3 of 1,024 blocks are free.",)


def test_requests_that_wait_for_a_seat_are_told_with_the_flag():
    found = kinds(free_blocks=900, running=8, waiting=9)["waits_for_seats"]
    assert found.title == "9 requests wait, as max_num_seqs=8 run; 88% of the blocks are free."
    assert "A larger max_num_seqs" in found.remedy


def test_the_flag_has_the_name_that_its_engine_gives_it():
    other = replace(SERVER, name="transformers", use=KvUse(blocks=1024, free_blocks=900, running=8, waiting=1))
    found = findings(replace(moment(row(Tensor(1, "kv_caches[0]", Category.KV_CACHE))), serving=other), 0)
    titles = [finding.title for finding in found if finding.kind == "waits_for_seats"]
    assert titles == ["1 request waits, as max_requests_per_batch=8 run; 88% of the blocks are free."]


QUIET = {
    "nobody waits": {"free_blocks": 3, "running": 4, "waiting": 0},
    "some blocks are free": {"free_blocks": 200, "running": 8, "waiting": 3},
    "fewer run than may": {"free_blocks": 900, "running": 7, "waiting": 3},
    "the scheduler is elsewhere": {},
}


@pytest.mark.parametrize("use", QUIET.values(), ids=QUIET)
def test_a_server_that_does_well_is_not_advised(use):
    assert not {"waits_for_blocks", "waits_for_seats"} & set(kinds(**use))


def beside(others_gib: float) -> dict:
    """What is found of a server of half the device, 30 GiB of which it holds, beside other processes."""
    seen = moment(
        row(Tensor(30 * 1024, "kv_caches[0]", Category.KV_CACHE)), used_mib=30 * 1024, others_mib=others_gib * 1024
    )
    return {finding.kind: finding for finding in findings(replace(seen, serving=SERVER), 0)}


def test_a_server_that_would_not_start_again_beside_others_is_told_with_the_flag():
    found = beside(44)
    assert "others" not in found
    again = found["would_not_start_again"]
    assert again.title == "This server would not start again: other processes hold 44.0 GiB of the device."
    assert again.evidence == ("36.0 GiB of 80.0 GiB would be free; it asks for 40.0 GiB.",)
    assert "gpu_memory_utilization to 0.45" in again.remedy


def test_a_server_that_finds_enough_beside_others_would_start_again():
    assert "would_not_start_again" not in beside(39)
    assert "would_not_start_again" not in beside(0)


def test_preemptions_are_in_the_words_about_the_cache():
    use = KvUse(blocks=1024, free_blocks=3, running=4, waiting=9, requests_read=4, longest_tokens=7, preemptions=1)
    assert "the longest 7 tokens, 1 preemption; 0 more like these fit." in use_words(replace(SERVER, use=use))
    assert use_words(SERVER) == ""


def test_the_cache_of_a_server_has_its_own_number_of_layers():
    assert kinds(free_blocks=900)["kv_cache"].title == (
        "The KV cache has room for 16,384 tokens in 1,024 blocks, in 4 layers: 1.0 GiB, 64.0 KiB a token."
    )
    assert SERVER.cache.bytes_per_block == MIB
