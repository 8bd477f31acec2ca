"""Which names mean a tensor of a KV cache: those in transformers, vLLM and gpt-fast, and usual names in own code."""

from __future__ import annotations

import re
from itertools import islice

_KEYS_AND_VALUES = re.compile(
    r"\b_?(?:"
    r"past_(?:keys?_values?|kvs?)|keys?_values?|"
    r"(?:\w+_)?(?:key|value|k|v|kv)_?(?:states_)?caches?(?:_pool|_tensors?)?|"
    r"caches?_(?:keys?|values?|k|v|kv)|cached_(?:keys?|values?|k|v|kv)|"
    r"(?:k|v|kv)_(?:buffers?|pools?)"
    r")\b|\.layers\[\d+\]\.(?:keys|values)\b|\bcache\.cache_tensor\b|"
    r"\bcaches?(?:\[[^\[\]]{0,64}\]){0,3}(?:\.(?:keys|values|k|v)\b|\[['\"](?:keys|values|k|v)['\"]\])|"
    r"\bpast\[\d+\]\[[01]\]"
)
_PARTS = "cache", "key", "kv", "k_", "v_", "].values", "past["
"""Every name that the pattern matches contains one of these."""
AT_MOST = 8192
"""So many names that contain one of `_PARTS` are matched in one call; the others count as no cache."""


def is_of_cache(name: str) -> bool:
    """Whether a tensor of this name is part of a KV cache."""
    return _KEYS_AND_VALUES.search(name) is not None


def of_caches(names: list[str]) -> list[int]:
    """The indices of the names that mean a tensor of a KV cache."""
    text = "\n".join(names)  # mostly it has none of the parts: one quick search instead of one for each name
    parts = [part for part in _PARTS if part in text]
    candidates = (number for number, name in enumerate(names) if any(map(name.__contains__, parts))) if parts else ()
    return [number for number in islice(candidates, AT_MOST) if is_of_cache(names[number])]
