"""A model as its files describe it; no tensor is read for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Elements = Mapping[str, int]
"""How many elements there are of each data type, by safetensors' name of it, such as BF16."""


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """What the headers of a model's weight files say. `vectors` (norms, biases) are not split among a server's devices;
    `vocabulary` are embeddings and output layers, `matrices` all others with two dimensions or more."""

    matrices: Elements = field(default_factory=lambda: MappingProxyType({}))
    vocabulary: Elements = field(default_factory=lambda: MappingProxyType({}))
    vectors: Elements = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder with a model; `configuration` is its config.json.

    `stored_bytes` is the size of all weights by their index. `stored_bytes` is None without an index, `tensors` unless
    the headers of all files can be read.
    """

    name: str
    folder: str
    configuration: Mapping[str, Any]
    stored_bytes: int | None = None
    tensors: StoredTensors | None = None
