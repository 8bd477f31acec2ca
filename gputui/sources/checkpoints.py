"""A model's files on this machine, in a folder or in the cache of Hugging Face's hub: no download, no tensor read."""

from __future__ import annotations

import json
import os
import struct
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

from gputui.errors import GputuiError, UsageError
from gputui.model.checkpoint import Checkpoint, StoredTensors
from gputui.regular_files import open_regular, small_content

CONFIGURATION, INDEX, SINGLE = "config.json", "model.safetensors.index.json", "model.safetensors"
_MOST_BYTES = 1 << 26
"""The largest configuration, index or header of safetensors: the header of 100,000 tensors has 15 MB."""
_FILES_AT_MOST = 2000
_DIMENSIONS_AT_MOST, _LARGEST = 8, 1 << 48
_VOCABULARY = ("embed_tokens", "lm_head", "wte.", "word_embeddings", "embed_in", "embed_out")


def checkpoint_of(name: str, revision: str, environment: Mapping[str, str]) -> Checkpoint:
    """The model in a folder, beside a config.json, or of a name in the hub's cache. Raises GputuiError."""
    folder = _folder(name, revision, environment)
    configuration = _document(os.path.join(folder, CONFIGURATION))
    index = os.path.join(folder, INDEX)
    stored_bytes, files = _index(_document(index)) if os.path.exists(index) else (None, (SINGLE,))
    return Checkpoint(name, folder, configuration, stored_bytes, _tensors(folder, files))


def _folder(name: str, revision: str, environment: Mapping[str, str]) -> str:
    """The model's folder; raises UsageError, which says where it was searched."""
    if os.path.basename(name) == CONFIGURATION and os.path.isfile(name):
        return os.path.dirname(name) or "."
    if os.path.isdir(name):
        if os.path.exists(os.path.join(name, CONFIGURATION)):
            return name
        cause = f"The folder {name} has no {CONFIGURATION}."
        raise UsageError(cause, "Name the folder of a model as Hugging Face's transformers saves it.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        cause = f"There is no folder {name}."
        raise UsageError(cause, f"Name a folder with the model's {CONFIGURATION}.")
    hub = _hub(environment)
    kept = os.path.join(hub, f"models--{name.replace('/', '--')}")
    folder = os.path.join(kept, "snapshots", _commit(kept, revision or "main"))
    if os.path.exists(os.path.join(folder, CONFIGURATION)):
        return folder
    cause = f"There is no folder {name}, and the cache of Hugging Face's hub has no such model ({hub})."
    remedy = f"`hf download {name} {CONFIGURATION} {INDEX}` fetches what is needed, some KiB; or name a folder."
    raise UsageError(cause, remedy)


def _hub(environment: Mapping[str, str]) -> str:
    """The folder of the hub's cache, as huggingface_hub finds it."""
    if chosen := environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE"):
        return os.path.expanduser(chosen)
    home = environment.get("HF_HOME") or os.path.join(environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return os.path.join(os.path.expanduser(home), "hub")


def _commit(kept: str, revision: str) -> str:
    """The commit that a revision such as main names; the revision itself where the cache has no such name."""
    try:
        return small_content(os.path.join(kept, "refs", revision), 1 << 10).decode("ascii", "replace").strip()
    except OSError:
        return revision


def _document(path: str) -> dict[str, Any]:
    """The JSON object in a file. Raises GputuiError."""
    try:
        found = json.loads(small_content(path, _MOST_BYTES))
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise GputuiError(cause) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        cause = f"{path} holds no object of JSON."
        raise GputuiError(cause, "Fetch the model's files again.")
    return found


def _index(index: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """The bytes of all weights, None if not given, and the names of the files that they are in."""
    metadata, places = index.get("metadata"), index.get("weight_map")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    names = {place for place in places.values() if isinstance(place, str)} if isinstance(places, dict) else set()
    is_size = isinstance(size, (int, float)) and 0 < size < _LARGEST
    return int(size) if is_size and size is not None else None, tuple(sorted(names)[:_FILES_AT_MOST])


def _tensors(folder: str, files: tuple[str, ...]) -> StoredTensors | None:
    """The sums over the headers of all files; None unless all files are here and can be read."""
    matrices: Counter[str] = Counter()
    vocabulary: Counter[str] = Counter()
    vectors: Counter[str] = Counter()
    try:
        for file in files:
            for name, dtype, shape in _header(os.path.join(folder, os.path.basename(file))):
                is_of_words = any(word in name for word in _VOCABULARY)
                kind = vectors if len(shape) < 2 else vocabulary if is_of_words else matrices
                kind[dtype] += prod(shape)
    except (OSError, ValueError, RecursionError):
        return None
    return StoredTensors(matrices, vocabulary, vectors) if matrices.total() else None


def _header(path: str) -> list[tuple[str, str, list[int]]]:
    """Name, data type and shape of each tensor in a file of safetensors; raises OSError or ValueError."""
    with open_regular(path) as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        if not 0 < length <= _MOST_BYTES:
            raise ValueError(length)
        text = file.read(length)
    if len(text) < length:
        raise ValueError(path)
    header = json.loads(text)
    rows: list[tuple[str, str, list[int]]] = []
    for name, row in header.items() if isinstance(header, dict) else ():
        if name == "__metadata__":
            continue
        dtype, shape = (row.get("dtype"), row.get("shape")) if isinstance(row, dict) else (None, None)
        if not isinstance(dtype, str) or not isinstance(shape, list) or not _is_shape(shape):
            raise ValueError(path)
        rows.append((name, dtype, shape))
    return rows


def _is_shape(shape: list[Any]) -> bool:
    return len(shape) <= _DIMENSIONS_AT_MOST and all(type(size) is int and 0 <= size < _LARGEST for size in shape)
