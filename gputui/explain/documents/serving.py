"""The `serving` object of the attach document: an inference server in its own words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gputui.explain.serving.asleep import asleep
from gputui.explain.serving.capacity import (
    blocks_in_use,
    is_exact,
    longest_in_document,
    longest_request,
    more_requests,
    tokens_in,
)
from gputui.explain.serving.division import division
from gputui.explain.serving.other_flags import Result
from gputui.explain.serving.words import larger
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.serving import Serving


def serving_document(moment: TargetMoment) -> dict[str, Any] | None:
    """The object, None where no engine is known; a value that the engine does not say is None."""
    serving = moment.serving
    if serving is None:
        return None
    return {
        "engine": serving.name,
        "version": serving.version or None,
        "role": serving.role,
        "settings": asdict(serving.settings),
        "profile": asdict(serving.profile),
        "division": [
            {"device": device.index, "part": part.key, "bytes": part.bytes, "dtypes": list(part.dtypes)}
            for device in moment.held_devices
            for part in division(moment, device)
        ],
        "asleep_bytes": sum(asleep(device).bytes for device in moment.held_devices),
        "kv_cache": _cache(serving),
        "requests": {
            "running": serving.use.running,
            "waiting": serving.use.waiting,
            "longest_tokens": serving.use.longest_tokens if serving.use.requests_read else None,
            "preemptions": serving.use.preemptions if serving.use.requests_read else None,
            "more_that_fit": more_requests(serving),
        },
        "other_flags": [result_document(result) for result in larger(serving)],
    }


def _cache(serving: Serving) -> dict[str, Any]:
    cache, use, settings = serving.cache, serving.use, serving.settings
    is_pool_known = use.blocks is not None and use.free_blocks is not None
    longest = longest_request(cache.blocks, cache.groups, settings) if cache.blocks else None
    return {
        "bytes": cache.size_bytes,
        "blocks": cache.blocks,
        "tokens": tokens_in(cache.blocks, cache.groups, settings) if cache.blocks else None,
        "bytes_per_block": cache.bytes_per_block,
        "layers": cache.layers or None,
        "groups": [asdict(group) for group in cache.groups],
        "longest_request_tokens": longest_in_document(longest),
        "is_exact": is_exact(cache),
        "blocks_in_use": blocks_in_use(serving) if is_pool_known else None,
        "blocks_free": use.free_blocks,
        "blocks_with_prefix": use.prefix_blocks,
    }


def result_document(result: Result) -> dict[str, Any]:
    """What the server would have with other flags."""
    return {
        "flags": {name: value for name, value in asdict(result.flags).items() if value is not None},
        "kv_bytes": result.kv_bytes,
        "blocks": result.blocks,
        "tokens": result.tokens,
        "longest_request_tokens": longest_in_document(result.longest),
        "error": result.error or None,
        "is_exact": result.is_exact,
    }
