"""`gputui check vllm serve ...`: the answer of the command line of a server, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputui.cli import main
from tests.explain.serving.test_ahead import LLAMA_8B


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    return str(tmp_path)


def test_the_answer_is_the_first_line(model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["check", "vllm", "serve", model, "--max-model-len", "32768", "--device", "H100"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("It starts on one H100: its KV cache has room for 4")
    assert "14.9 GiB" in text or "15.0 GiB" in text
    assert "128 KiB a token, 32 layers" in text
    assert "--kv-cache-dtype fp8" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_longest_that_fits_is_said_as_a_range(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["check", "vllm", "serve", model, "--max-model-len", "auto", "--device", "RTX4090"]) == 0
    first = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert "1.0 requests of 3" in first
    assert "The cache allows a max_model_len of up to 3" in first


def test_the_device_may_stand_before_the_server(model: str, capsys: pytest.CaptureFixture[str]):
    words = ["--device-memory", "14GiB", "--json", "--", "vllm", "serve", model, "--enable-lora"]
    assert main(["check", *words]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["verdict"]) == ("gputui.check-serving/1", "does not start")
    assert document["error"].startswith("CUDA out of memory, while the weights are loaded (14.8")
    assert document["not_considered"] == ["--enable-lora"]
    assert document["problems"] == ["The figures are those without --enable-lora."]
    assert document["parts"]["weights"]["least"] < document["weights"]["bytes"] < document["parts"]["weights"]["most"]


REFUSED = {
    "no device": ((), "needs a device, and one of them"),
    "two devices": (("--device", "H100", "--device-memory", "80GiB"), "needs a device, and one of them"),
    "less than any GPU": (("--device-memory", "80B"), "No GPU has 80 B."),
    "memory without a unit": (("--device-memory", "80"), "cannot be '80'. Write a size with its unit"),
    "an unknown one": (("--device", "H1000"), "The memory of a 'H1000' is not known"),
    "a device without a name": (("--device",), "--device needs a value"),
    "a wrong value": (("--device", "H100", "-tp", "two"), "--tensor-parallel-size cannot be 'two'"),
}


def test_another_command_of_the_server_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "vllm", "--device", "H100"]) == 2
    assert "Write: gputui check vllm serve MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "cause"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said(model: str, words: tuple[str, ...], cause: str, capsys: pytest.CaptureFixture[str]):
    assert main(["check", "vllm", "serve", model, *words]) == 2
    assert cause in capsys.readouterr().err
