"""The text of PYTORCH_CUDA_ALLOC_CONF: `key:value,key:[a:1,b:2]`."""

from __future__ import annotations

LARGE_PAGE_BYTES = 20 * 1024**2
WITH_OLDER_FIRST = "max_cached_size"
"""Named in snapshots of PyTorch 2.15 and newer, which takes, of free blocks of one size, that in the oldest segment."""


def parse_settings(text: str) -> dict[str, str]:
    """The settings by name; commas inside brackets belong to the value."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    pairs = (part.partition(":") for part in [*parts, text[start:]])
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}


def large_page_bytes(values: dict[str, str]) -> int:
    """The page size of expandable segments of large blocks, which `large_segment_size_mb` changes."""
    megabytes = values.get("large_segment_size_mb", "")
    return int(megabytes) * 1024**2 if megabytes.isdecimal() and len(megabytes) < 9 else LARGE_PAGE_BYTES
