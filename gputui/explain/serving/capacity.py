"""How many tokens and requests a server's KV cache has room for: vLLM's own arithmetic.

Source: `FullAttentionSpec.max_memory_usage_bytes`, `SlidingWindowSpec.max_admission_blocks_per_request`, and
`get_max_concurrency_for_kv_cache_config` of vLLM 0.33.
"""

from __future__ import annotations

from gputui.model.attached.serving import KvCache, KvGroup, Serving, ServingSettings

NULL_BLOCKS = 1
"""Blocks that vLLM's pool never gives to requests."""
GROUPS_AT_MOST = 256
LONGEST = 1 << 40
"""The tokens of the longest request where any length fits, as it may with sliding windows in all layers."""


def blocks_of_request(groups: tuple[KvGroup, ...], tokens: int, settings: ServingSettings) -> int | None:
    """How many blocks a request of `tokens` tokens takes at most; None where the size of a block is not known."""
    counts = [_blocks_of_group(group, tokens, settings) for group in groups[:GROUPS_AT_MOST]]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _blocks_of_group(group: KvGroup, tokens: int, settings: ServingSettings) -> int | None:
    size = (group.block_size or 0) * (settings.context_parallel_size or 1)
    if size <= 0:
        return None
    if group.sliding_window and settings.max_num_batched_tokens:
        window = min(group.sliding_window - 1 + settings.max_num_batched_tokens, tokens)
        return min(-(-window // size) + 1, -(-tokens // size))
    return -(-tokens // size)


def is_exact(cache: KvCache) -> bool:
    """Whether the arithmetic is exact to the block: so it is if all layers keep all tokens."""
    return len(cache.groups) == 1 and not cache.groups[0].sliding_window


def longest_request(blocks: int, groups: tuple[KvGroup, ...], settings: ServingSettings) -> int | None:
    """The longest request, in tokens, that fits `blocks` blocks: the largest max_model_len of a server that starts."""
    usable = blocks - NULL_BLOCKS
    if blocks_of_request(groups, 1, settings) is None:
        return None
    least, most = 0, 1
    while most < LONGEST and _fits(groups, most, settings, usable):
        least, most = most, most * 2
    if most >= LONGEST:
        return LONGEST
    while most - least > 1:
        middle = (least + most) // 2
        if _fits(groups, middle, settings, usable):
            least = middle
        else:
            most = middle
    return least


def longest_in_words(longest: int) -> str:
    """The longest request as a number of tokens, or "any length"."""
    return f"{longest:,}" if longest < LONGEST else "any length"


def longest_in_document(longest: int | None) -> int | None:
    """The longest request in tokens; None where it is not known, or any length fits."""
    return longest if longest is None or longest < LONGEST else None


def _fits(groups: tuple[KvGroup, ...], tokens: int, settings: ServingSettings, usable: int) -> bool:
    needed = blocks_of_request(groups, tokens, settings)
    return needed is not None and needed <= usable


def tokens_in(blocks: int, groups: tuple[KvGroup, ...], settings: ServingSettings) -> int | None:
    """The tokens that fit `blocks` blocks, as vLLM's log says it: in requests of max_model_len each.

    Where max_model_len is not known, None, unless all layers keep all tokens.
    """
    length = settings.max_model_len
    if not length and len(groups) == 1 and not groups[0].sliding_window:
        return blocks * (groups[0].block_size or 0) or None
    needed = blocks_of_request(groups, length, settings) if length else None
    return int(blocks / needed * length) if needed and length else None


def more_requests(serving: Serving) -> int | None:
    """How many more requests like the running ones fit the free blocks and max_num_seqs; None where not known."""
    use, settings = serving.use, serving.settings
    if use.blocks is None or use.free_blocks is None or not use.running:
        return None
    each = max(1, -(-blocks_in_use(serving) // use.running))
    fitting = use.free_blocks // each
    return min(fitting, max(0, settings.max_num_seqs - use.running)) if settings.max_num_seqs else fitting


def blocks_in_use(serving: Serving) -> int:
    """How many blocks of the pool requests hold now."""
    use = serving.use
    return max(0, (use.blocks or 0) - use.null_blocks - (use.free_blocks or 0))
