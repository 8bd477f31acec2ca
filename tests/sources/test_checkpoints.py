"""A model's files: a folder, or the cache of the hub; what they may hold is read as far as it makes sense."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.sources.checkpoints import checkpoint_of

SHAPES = {
    "model.embed_tokens.weight": ("BF16", [100, 8]),
    "model.layers.0.mlp.up_proj.weight": ("F8_E4M3", [16, 8]),
    "model.norm.weight": ("BF16", [8]),
}


def safetensors(path: Path, shapes: dict[str, object]) -> None:
    """The header of a file of weights, without the weights."""
    rows = {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 1]} for name, (dtype, shape) in shapes.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **rows}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    return tmp_path


def test_the_headers_of_the_weights_are_added_up(folder: Path):
    safetensors(folder / "model.safetensors", SHAPES)
    for name in (str(folder), str(folder / "config.json")):
        checkpoint = checkpoint_of(name, "", {})
        assert checkpoint.configuration == {"model_type": "llama"}
        assert checkpoint.tensors is not None
        assert dict(checkpoint.tensors.vocabulary) == {"BF16": 800}
        assert dict(checkpoint.tensors.matrices) == {"F8_E4M3": 128}
        assert dict(checkpoint.tensors.vectors) == {"BF16": 8}


def test_an_index_without_its_files_has_the_sum(folder: Path):
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    safetensors(folder / "one.safetensors", SHAPES)
    checkpoint = checkpoint_of(str(folder), "", {})
    assert (checkpoint.stored_bytes, checkpoint.tensors) == (16_060_522_496, None)
    safetensors(folder / "two.safetensors", SHAPES)
    whole = checkpoint_of(str(folder), "", {})
    assert whole.tensors is not None
    assert dict(whole.tensors.vocabulary) == {"BF16": 1600}


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_a_model_in_the_cache_of_the_hub_is_found_by_its_name(tmp_path: Path, variable: str):
    below = {"HF_HUB_CACHE": "", "HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub"}[variable]
    kept = tmp_path / below / "models--org--name"
    for place, text in {
        "refs/main": "abc\n",
        "snapshots/abc/config.json": "{}",
        "snapshots/old/config.json": "{}",
    }.items():
        (kept / place).parent.mkdir(parents=True, exist_ok=True)
        (kept / place).write_text(text)
    assert checkpoint_of("org/name", "", {variable: str(tmp_path)}).folder.endswith("snapshots/abc")
    assert checkpoint_of("org/name", "old", {variable: str(tmp_path)}).folder.endswith("snapshots/old")


def test_a_model_that_is_not_here_says_how_it_is_fetched(tmp_path: Path):
    with pytest.raises(GputuiError) as refused:
        checkpoint_of("org/name", "", {"HF_HUB_CACHE": str(tmp_path)})
    assert "`hf download org/name config.json" in str(refused.value)
    with pytest.raises(GputuiError, match="There is no folder /no/such"):
        checkpoint_of("/no/such", "", {})
    with pytest.raises(GputuiError, match=r"has no config\.json"):
        checkpoint_of(str(tmp_path), "", {})


CONFIGURATIONS = {
    "no JSON": b"{",
    "no object": b"[1]",
    "too deep": b"[" * 100_000,
    "many digits": b"9" * 5000,
    "no text": b"\xff\x00",
}


@pytest.mark.parametrize("content", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_configuration_that_is_none_is_a_sentence(folder: Path, content: bytes):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(GputuiError, match="holds no object of JSON"):
        checkpoint_of(str(folder), "", {})


HEADERS = {
    "empty": b"",
    "longer than the file": struct.pack("<Q", 1 << 20) + b"{}",
    "endless": struct.pack("<Q", 1 << 63) + b"{}",
    "without tensors": struct.pack("<Q", 2) + b"{}",
    "no JSON": struct.pack("<Q", 2) + b"{{",
    "no shape": struct.pack("<Q", 27) + b'{"a": {"dtype": "BF16"}}   ',
    "a shape that cannot be": struct.pack("<Q", 44) + b'{"a": {"dtype": "BF16", "shape": [-1, 1e9]}}',
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_weights_that_cannot_be_read_are_left_out(folder: Path, content: bytes):
    (folder / "model.safetensors").write_bytes(content)
    assert checkpoint_of(str(folder), "", {}).tensors is None


def test_names_in_an_index_lead_to_no_other_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    other = tmp_path_factory.mktemp("other") / "model.safetensors"
    safetensors(other, SHAPES)
    index = {"metadata": {"total_size": 1}, "weight_map": {"a": str(other), "b": 3}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checkpoint_of(str(folder), "", {}).tensors is None
