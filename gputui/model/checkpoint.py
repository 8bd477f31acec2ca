"""A model as its files describe it, without a tensor being read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Elements = Mapping[str, int]
"""Numbers of elements by safetensors' name of the data type, such as BF16."""


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """What the headers of all files of weights say: vectors (norms, biases) are on each device of a server in full."""

    matrices: Elements = field(default_factory=lambda: MappingProxyType({}))
    vocabulary: Elements = field(default_factory=lambda: MappingProxyType({}))
    vectors: Elements = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder with a model; `configuration` is its config.json.

    `stored_bytes` is what the index of its weights says that they take. Both it and `tensors` are None without such
    files.
    """

    name: str
    folder: str
    configuration: Mapping[str, Any]
    stored_bytes: int | None = None
    tensors: StoredTensors | None = None
