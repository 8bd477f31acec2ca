"""Out-of-memory errors that PyTorch's observer does not report: pinned host memory, cuBLAS, NCCL, another allocator.

Such an error is known only once it has ended the program: by the text of its exception, or of one that led to it.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple

CHAIN_AT_MOST = 32
"""How many exceptions of a chain of causes are examined."""
TEXT_AT_MOST = 20_000
FRAMES_AT_MOST = 100
"""How many of the innermost frames of a traceback are kept."""
PINNED, CUDA = "pinned host memory", "CUDA"


class _Pattern(NamedTuple):
    """A text that only such an error has, and who asked for memory; with `has_size`, group 1 is the size in bytes."""

    text: re.Pattern[str]
    asked: str = ""
    has_size: bool = False


_PATTERNS = (
    _Pattern(re.compile(r"\bCUBLAS_STATUS_ALLOC_FAILED\b"), "cuBLAS"),
    _Pattern(re.compile(r"\bCUDNN_STATUS_ALLOC_FAILED\b"), "cuDNN"),
    _Pattern(re.compile(r"\bCU(?:SPARSE|SOLVER|FFT|RAND)_(?:STATUS_)?ALLOC(?:ATION)?_FAILED\b"), "a CUDA library"),
    _Pattern(
        re.compile(r"Failed to CUDA (?:host )?(?:calloc|alloc|malloc)\w* (\d{1,15}) bytes"), "NCCL", has_size=True
    ),
    _Pattern(
        re.compile(r"(?i)\bncclUnhandledCudaError\b.*?\bout of memory\b|Cuda failure (?:\d+ )?'out of memory'"), "NCCL"
    ),
    _Pattern(re.compile(r"CUDA out of memory\b"), "PyTorch"),
    _Pattern(re.compile(r"CUDA (?:driver )?error: out of memory\b|\bcudaErrorMemoryAllocation\b"), CUDA),
)
"""The first pattern that is found in a text decides."""
_PINNING = re.compile(r"pin_memory|pin memory thread")


class MemoryFailure(NamedTuple):
    """An error that has ended the program: who asked for memory, how much (0: not known), and the innermost frames."""

    asked: str
    requested_bytes: int
    stack: list[dict[str, Any]]


def memory_error_in(error: BaseException) -> MemoryFailure | None:
    """The first out-of-memory error in a chain of exceptions, None if there is none."""
    for one in chain(error):
        text = _text(one)
        found = next((found for pattern in _PATTERNS if (found := _found(pattern, text)) is not None), None)
        if found is not None:
            stack = _stack(one.__traceback__)
            asked, requested_bytes = found
            is_pinning = asked == CUDA and _is_pinning(text, stack)
            return MemoryFailure(PINNED if is_pinning else asked, requested_bytes, stack)
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or one of those that led to it, is PyTorch's OutOfMemoryError."""
    kind = getattr(getattr(sys.modules.get("torch"), "cuda", None), "OutOfMemoryError", None)
    return kind is not None and any(isinstance(one, kind) for one in chain(error))


def chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that led to it or are in its group."""
    waiting: list[BaseException | None] = [error]
    for _ in range(CHAIN_AT_MOST):
        if not waiting:
            return
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__context__, one.__cause__, *getattr(one, "exceptions", ())]


def _found(pattern: _Pattern, text: str) -> tuple[str, int] | None:
    match = pattern.text.search(text)
    return None if match is None else (pattern.asked, int(match[1]) if pattern.has_size else 0)


def _is_pinning(text: str, stack: list[dict[str, Any]]) -> bool:
    """Whether the text, a function's name, a file's name or the innermost line speaks of pinned memory."""
    lines = [linecache.getline(site["file"], site["line"]) for site in stack[:1]]
    names = [f"{site['file']} {site['function']}" for site in stack]
    return any(map(_PINNING.search, [text, *lines, *names]))


def _text(error: BaseException) -> str:
    if not isinstance(error, (RuntimeError, MemoryError)):  # PyTorch's errors are RuntimeErrors
        return ""
    try:
        return str(error)[:TEXT_AT_MOST]
    except Exception:  # noqa: BLE001 (somebody else's __str__)
        return ""


def _stack(traceback: TracebackType | None) -> list[dict[str, Any]]:
    """The frames that the exception went through, innermost first."""
    sites: deque[dict[str, Any]] = deque(maxlen=FRAMES_AT_MOST)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        sites.appendleft({"file": code.co_filename, "line": traceback.tb_lineno or 0, "function": code.co_name})
        traceback = traceback.tb_next
    return list(sites)
