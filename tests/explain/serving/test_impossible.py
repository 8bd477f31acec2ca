"""Whatever an engine, or who pretends to be one, says of itself: it is shown or left out, and nothing fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from gputui.explain.advice import findings
from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.verdict import verdict
from gputui.explain.documents.attach import attach_document
from gputui.explain.serving.other_flags import Flags, with_flags
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
from gputui.units import GIB
from tests.explain.moments import Tensor, moment, row

SERVER = Serving(
    "vLLM", "0.33.0", "engine core",
    ServingSettings(
        "llama", "float16", None, 0.5, 1024, 131072, 8, 2048, 16, "auto", None, None, False, False, True, False, 1, 1, 1
    ),
    ServingProfile(80 * GIB, 79 * GIB, 40 * GIB, GIB, GIB, GIB, 0, GIB),
    KvCache(1024, (KvGroup(4, 16, 8, 64, 64, "float16", 4096),), (KvTensor(GIB, 4),)),
    KvUse(1024, 30, 3, 4, 2, 4, 100, 50, 1),
)  # fmt: skip
EXTREMES: tuple[Any, ...] = (None, 0, -1, 1, 2**64 - 1, -(2**64) + 1)
TRIED = [Flags(gpu_memory_utilization=0.9), Flags(max_model_len=131072), Flags(block_size=64, kv_cache_dtype="fp8")]


def changed(value: Any, *, may_be_absent: bool = False) -> Iterator[Any]:
    """The value with each of its numbers replaced by each extreme, one at a time."""
    if is_dataclass(value):
        for field in fields(value):
            for other in changed(getattr(value, field.name), may_be_absent="None" in str(field.type)):
                yield replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        yield ()
        for number, item in enumerate(value):
            for other in changed(item):
                yield (*value[:number], other, *value[number + 1 :])
    elif type(value) in (int, float):
        yield from EXTREMES[not may_be_absent :]


def test_it_is_shown_or_left_out():
    for serving in changed(SERVER):
        check_it_is_shown_or_left_out(serving)


def check_it_is_shown_or_left_out(serving: Serving):
    made = replace(moment(row(Tensor(1024, "kv_caches[0]", Category.KV_CACHE)), used_mib=2048), serving=serving)
    device = made.devices[0]
    answer = in_servers_words(verdict(made, device), made, device)
    assert answer is not None, serving
    division = attach_document(made)["serving"]["division"]
    assert sum(part["bytes"] for part in division) == 80 * GIB, serving
    assert all(part["bytes"] > 0 for part in division), serving
    findings(made, 0)
    for flags in TRIED:
        with_flags(serving, flags)
