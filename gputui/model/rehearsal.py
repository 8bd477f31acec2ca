"""What a step of training on tensors without data asked of the allocator."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The requests and frees of a step, in order; nothing ran on a GPU.

    `events` holds the number of a request where it is made, and -1 - number where it is freed; `sizes_bytes`,
    `categories` (as in the attach document) and `modules` (paths, "" for none) are by that number,
    as is `element_bytes`, 0 for what is no floating point. `marks` says at
    which event a part begins: model, batch, forward, backward, optimizer; or step.
    `values_read` is how often the program read a value that nobody knows, `largest_results` how often each operation's
    result was taken for as large as it can be, because its size depends on values.
    """

    torch: str
    events: array[int]
    sizes_bytes: array[int]
    categories: tuple[str, ...]
    modules: tuple[str, ...]
    element_bytes: bytes
    marks: tuple[tuple[int, str], ...]
    values_read: int
    largest_results: Mapping[str, int]
