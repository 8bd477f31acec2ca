"""`gputui snapshot` on real programs: the file matches PyTorch's own snapshot, and PyTorch's tools can read it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from gputui import cli
from tests.attach.children import Child, Python
from tests.attach.small_training import TRAINING

SNAPSHOT_AND_WAIT = """
    import pickle, time
    step()
    if device == "cuda":
        with open("own.pickle", "wb") as file:
            pickle.dump(torch.cuda.memory._snapshot(), file)
    print("written", flush=True)
    while True:
        time.sleep(0.001)
"""
SETTINGS = "roundup_power2_divisions:[64:8,256:4,>:1],max_split_size_mb:40"

READER = """
import json, pickle, sys
from torch.cuda import _memory_viz as viz
data = pickle.load(open(sys.argv[1], "rb"))
flames = viz.memory(data, format_flamegraph=str)
print(json.dumps({"summary": viz.segsum(data), "trace": viz.trace(data), "flames": flames.splitlines()}))
"""
"""Replaces `format_flamegraph`, which would download a script."""


def waiting(torch_python: Python) -> tuple[Child, str]:
    child = torch_python.fork(TRAINING + SNAPSHOT_AND_WAIT, PYTORCH_CUDA_ALLOC_CONF=SETTINGS)
    device = child.expect("ready")
    child.expect("written")
    return child, device


def without_frames(segments: list[dict]) -> list[dict]:
    for each in (*segments, *(block for segment in segments for block in segment["blocks"])):
        each["frames"] = []
    return segments


@pytest.mark.every_torch
def test_the_file_matches_pytorchs_own_snapshot(torch_python: Python, capsys) -> None:
    child, device = waiting(torch_python)
    path = torch_python.folder / "memory.pickle"
    status = cli.main(["snapshot", str(child.pid), "-o", str(path)])
    errors = capsys.readouterr().err
    if device == "cpu":
        assert status == 1
        assert f"There is nothing to save for process {child.pid}. The process has not initialised CUDA" in errors
        assert not path.exists()
        return
    assert status == 0, errors
    assert errors.startswith(f"gputui: {path} is written (")
    ours = pickle.loads(path.read_bytes())
    own = pickle.loads((torch_python.folder / "own.pickle").read_bytes())
    assert without_frames(ours["segments"]) == without_frames(own["segments"])
    assert ours["allocator_settings"] == {name: own["allocator_settings"][name] for name in ours["allocator_settings"]}
    assert ours.keys() <= own.keys()  # newer versions of PyTorch also save host memory


def test_pytorchs_tools_can_read_the_file(torch_python: Python) -> None:
    child, device = waiting(torch_python)
    if device == "cpu":
        return
    path = torch_python.folder / "memory.pickle"
    assert cli.main(["snapshot", str(child.pid), "-o", str(path)]) == 0
    outputs = json.loads(torch_python.fork(READER, str(path), GPUTUI_PROBE="0").expect(""))
    assert outputs["trace"] == ""
    assert "total_reserved: " in outputs["summary"]
    assert any(line.startswith("stream_0;active_allocated;parameter:0:model.0.weight ") for line in outputs["flames"])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(["1234567890", "-o", "x"], 1, "There is no process 1234567890 here.", id="no process"),
        pytest.param(["train", "-o", "x"], 2, "'train' is not a PID.", id="no PID"),
        pytest.param(["1234567890"], 2, "Missing: -o/--output.", id="no file"),
    ],
)
def test_a_wrong_command_line_is_refused_with_a_reason(arguments, status, words, capsys) -> None:
    assert cli.main(["snapshot", *arguments]) == status
    assert words in capsys.readouterr().err


def test_a_path_that_cannot_be_written_is_refused_with_a_reason(torch_python: Python, tmp_path: Path, capsys) -> None:
    child, device = waiting(torch_python)
    assert cli.main(["snapshot", str(child.pid), "-o", str(tmp_path / "nowhere" / "memory.pickle")]) == 2
    assert f"There is no folder {tmp_path / 'nowhere'}." in capsys.readouterr().err
    assert cli.main(["snapshot", str(child.pid), "-o", "/dev/full"]) == 1
    words = "There is nothing to save" if device == "cpu" else "/dev/full cannot be written: No space left on device."
    assert words in capsys.readouterr().err


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, capsys) -> None:
    kept = tmp_path / "memory.pickle"
    kept.write_text("kept")
    assert cli.main(["snapshot", "1234567890", "-o", str(kept)]) == 2
    assert f"{kept} exists already." in capsys.readouterr().err
    assert kept.read_text() == "kept"
