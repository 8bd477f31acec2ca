"""The sentences and lines about a server, by its own names, that answer what those who run it ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.owners.names import counted, listed
from gputui.explain.serving.capacity import (
    LONGEST,
    NULL_BLOCKS,
    blocks_in_use,
    blocks_of_request,
    longest_in_words,
    longest_request,
    more_requests,
    tokens_in,
)
from gputui.explain.serving.division import ServedPart
from gputui.explain.serving.other_flags import Flags, Result, with_flags
from gputui.model.attached.serving import ServerPage, Serving
from gputui.units import format_bytes

FP8 = "fp8"
FULLER = (0.9, 0.95)
"""Values of gpu_memory_utilization to try where a server has less."""


@dataclass(frozen=True, slots=True)
class ServedLine:
    """A line of the division, with a note that may be left out."""

    part: ServedPart
    note: str = ""


def headline(serving: Serving, parts: Sequence[ServedPart], whole_bytes: int, whole: str, asleep_bytes: int = 0) -> str:
    """The server, and how much of the device weights, KV cache and masks take, or that it sleeps."""
    sizes = {part.key: part.bytes for part in parts}
    kv, weights = sizes.get("kv_cache", 0), sizes.get("weights", 0) + sizes.get("quantised", 0)
    if asleep_bytes:
        what = "KV cache" if weights else "weights and KV cache"
        return (
            f"{serving.name} {serving.version}, {serving.role}, sleeps: until it wakes up,"
            f" {format_bytes(asleep_bytes)} of {what} are not on the device."
        )
    shares = [f"{format_bytes(weights)} are weights"]
    if kv:
        shares.append(f"{format_bytes(kv)} ({kv / whole_bytes:.0%} {whole}) KV cache")
    if masks := sizes.get("masks", 0):
        shares.append(f"{format_bytes(masks)} attention masks")
    utilization = serving.settings.gpu_memory_utilization
    flag = f" at gpu_memory_utilization={utilization:g}" if utilization else ""
    return f"{serving.name} {serving.version}, {serving.role}: {listed(shares)}{flag}."


def lines_of(serving: Serving, parts: Sequence[ServedPart]) -> tuple[ServedLine, ...]:
    """The lines of the division, with their notes."""
    notes = {
        "weights": ", ".join(part.dtypes[0] for part in parts if part.key == "weights" and part.dtypes),
        "quantised": _quantised_note(serving, parts),
        "kv_cache": cache_note(serving),
        "masks": "flash attention needs none",
        "cached" if _is_cached(parts) else "kept": _peak_note(serving),
    }
    return tuple(ServedLine(part, notes.get(part.key, "")) for part in parts)


def _quantised_note(serving: Serving, parts: Sequence[ServedPart]) -> str:
    """The method of quantisation by vLLM's name, and the data type of the largest quantised weights."""
    dtypes = [part.dtypes[0] for part in parts if part.key == "quantised" and part.dtypes]
    return ", ".join(filter(None, (serving.settings.quantization, *dtypes)))


def _is_cached(parts: Sequence[ServedPart]) -> bool:
    """Whether PyTorch's cache has more of the memory for activations than is still free on the device."""
    sizes = {part.key: part.bytes for part in parts}
    return sizes.get("cached", 0) >= sizes.get("kept", 0)


def _peak_note(serving: Serving) -> str:
    peak = serving.profile.activation_peak_bytes
    return f"{format_bytes(peak)} of activations at startup" if peak else ""


def cache_note(serving: Serving) -> str:
    """The cache's tokens, the bytes of each, and its layers, in a few words."""
    cache = serving.cache
    tokens = tokens_in(cache.blocks, cache.groups, serving.settings) if cache.blocks else None
    words = [f"{tokens:,} tokens"] if tokens else []
    if cache.bytes_per_block and len(cache.groups) == 1 and cache.groups[0].block_size:
        words.append(f"{format_bytes(cache.bytes_per_block / cache.groups[0].block_size)} each")
    if cache.layers:
        words.append(counted(cache.layers, "layer"))
    return ", ".join(words)


def cache_words(serving: Serving | None) -> str:
    """How many tokens the cache has room for, as a sentence; "" where the engine does not say it."""
    cache = serving.cache if serving else None
    if serving is None or cache is None or not cache.blocks or not cache.size_bytes or not cache.layers:
        return ""
    tokens = tokens_in(cache.blocks, cache.groups, serving.settings)
    if tokens is None or tokens <= 0:
        return ""
    return (
        f"The KV cache has room for {counted(tokens, 'token')} in {counted(cache.blocks, 'block')}, in"
        f" {counted(cache.layers, 'layer')}: {format_bytes(cache.size_bytes)},"
        f" {format_bytes(cache.size_bytes / tokens)} a token."
    )


def use_words(serving: Serving) -> str:
    """The blocks in use, and the running and waiting requests; "" where the scheduler is in another process."""
    use = serving.use
    if use.running is None or use.waiting is None:
        return ""
    words = _block_words(serving)
    words += f"{counted(use.running, 'request')} running, {use.waiting:,} waiting"
    if use.requests_read:
        words += f", the longest {use.longest_tokens:,} tokens"
    if use.preemptions:
        words += f", {counted(use.preemptions, 'preemption')}"
    more = more_requests(serving)
    return f"{words}; {more:,} more like these fit." if more is not None else f"{words}."


NEVER_HIT_TOKENS = 100_000
"""A prefix cache that found nothing in this many tokens is worth a sentence."""


def page_words(page: ServerPage) -> list[str]:
    """The sentences about the metrics that a server publishes."""
    facts = []
    if page.running is not None and page.waiting is not None:
        facts.append(f"{counted(int(page.running), 'request')} running, {page.waiting:,.0f} waiting")
    if page.kv_use_share is not None:
        facts.append(f"{page.kv_use_share:.0%} of the KV cache in use")
    if page.preemptions:
        facts.append(f"{counted(int(page.preemptions), 'preemption')} since it started")
    sentences = [f"{page.engine} on port {page.port}: {'; '.join(facts)}."] if facts else []
    queried, hit = page.prefix_queried_tokens, page.prefix_hit_tokens
    if queried and hit is not None:
        share = f"{hit / queried:.0%} of {queried:,.0f} prompt tokens were found in the prefix cache."
        sentences.append(NEVER_HIT.format(queried) if not hit and queried >= NEVER_HIT_TOKENS else share)
    elif page.prefix_hit_share is not None:
        sentences.append(f"{page.prefix_hit_share:.0%} of the last prompt tokens were found in the prefix cache.")
    return sentences


NEVER_HIT = (
    "None of {:,.0f} prompt tokens was found in the prefix cache: it helps only where prompts begin with the same"
    " tokens, for at least a block. What they share should come first."
)


def _block_words(serving: Serving) -> str:
    use = serving.use
    if use.blocks is None or use.free_blocks is None:
        return ""
    held = blocks_in_use(serving)
    share = held / use.blocks if use.blocks else 0
    words = f"KV blocks: {held:,} of {use.blocks:,} in use ({share:.1%})"
    if serving.settings.enable_prefix_caching and use.prefix_blocks is not None:
        words += f", {use.prefix_blocks:,} keep a prefix"
    return f"{words}. "


def notes_of(serving: Serving) -> tuple[str, ...]:
    """The sentences about a server's cache and requests."""
    return tuple(filter(None, (use_words(serving), length_words(serving))))


def length_words(serving: Serving) -> str:
    """The longest max_model_len that fits now, and with other flags; "" where it is not known."""
    settings, cache = serving.settings, serving.cache
    longest = longest_request(cache.blocks, cache.groups, settings) if cache.blocks else None
    if longest is None or settings.max_model_len is None:
        return ""
    up_to = "up to " if longest < LONGEST else ""
    words = f"max_model_len is {settings.max_model_len:,}; this KV cache allows {up_to}{longest_in_words(longest)}"
    others = [f"{longest_in_words(result.longest)} with {result.flags.words}" for result in larger(serving)]
    words += f" ({', '.join(others)})" if others else ""
    return f"{words}.{_full_length_words(serving, longest)}"


def _full_length_words(serving: Serving, longest: int) -> str:
    """A sentence, after a space, on what the length that the model was made for needs; "" if that is not known."""
    cache, made_for = serving.cache, serving.settings.longest_of_model
    if not made_for:
        return ""
    needed, each = blocks_of_request(cache.groups, made_for, serving.settings), cache.bytes_per_block
    if made_for <= longest or not needed or not each:
        return f" The model was made for {made_for:,}."
    return f" The model's {made_for:,} need {format_bytes((needed + NULL_BLOCKS) * each)} of KV cache."


def larger(serving: Serving) -> list[Result]:
    """The results of single other flags with which the server starts and has room for longer requests."""
    now = with_flags(serving, Flags())
    if now is None:
        return []
    utilization = serving.settings.gpu_memory_utilization or 1.0
    tried = [Flags(gpu_memory_utilization=value) for value in FULLER if value > utilization][-1:]
    tried += [Flags(kv_cache_dtype=FP8)] if not str(serving.settings.kv_cache_dtype).startswith(FP8) else []
    results = [with_flags(serving, flags) for flags in tried]
    return [result for result in results if result and not result.error and result.longest > now.longest]
