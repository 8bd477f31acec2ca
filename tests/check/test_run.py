"""`gputui check --run`: a script as it is, up to the third step of its optimizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from gputui.cli import main
from gputui.errors import GputuiError
from gputui.explain.whatif.ahead import doubts_of
from gputui.rehearsal.run import Output
from gputui.sources.rehearsal import Surroundings, rehearsal_of, rehearse_program
from tests import torches
from tests.check.conftest import PROGRAMS
from tests.hanging import wait_until
from tests.scale import sized
from tests.torches import REPOSITORY

LOOP = str(PROGRAMS / "loop.py")
WEIGHTS = 4000 * 512 + 2 * (512 * 512 + 512) + 512 * 4000 + 4000
"""How many the model of the script has."""


def answer_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What `gputui check --json` says of the one target."""
    assert main(["check", "--json", *words]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    (target,) = document["targets"]
    return {**target, "problems": document["problems"]}


def bytes_of(target: dict[str, Any], category: str) -> int:
    return sum(holder["bytes"] for holder in target["holders"] if holder["category"] == category)


@pytest.mark.every_torch
@pytest.mark.parametrize("forked", [("torch",)], indirect=True, ids=["its own imports"])
def test_a_script_needs_what_it_really_takes(forked, cuda_path, tmp_path_factory, capsys):
    """Mixed precision, data from another process, an optimizer that is older than the moved model."""
    variables = {"FAKEGPU_CUBLAS_HANDLES": "1"}
    real = torches.run_once(tmp_path_factory, cuda_path, PROGRAMS / "loop.py", "train", variables=variables)
    target = answer_of(capsys, "--python", cuda_path, "--device", "H100", "--run", LOOP, "train")
    assert target["name"] == f"{LOOP} train"
    assert target["peak_allocated_bytes"] == pytest.approx(real["peak_allocated_bytes"], rel=0.02)
    assert target["peak_reserved_bytes"] == pytest.approx(real["peak_reserved_bytes"], rel=0.05)
    assert bytes_of(target, "parameter") == 4 * WEIGHTS
    assert bytes_of(target, "optimizer_state") == pytest.approx(8 * WEIGHTS, rel=0.01)


@pytest.mark.every_torch
@pytest.mark.parametrize(("kind", "share"), [("fsdp", 4), ("ddp", 1)])
def test_a_rank_holds_its_part(forked, torch_path, capsys, kind, share):
    words = ["--python", torch_path, "--world-size", "4", "--rank", "3", "--run", LOOP, kind]
    target = answer_of(capsys, *words)
    assert bytes_of(target, "optimizer_state") == pytest.approx(8 * WEIGHTS / share, rel=0.01)
    assert target["peak_reserved_bytes"] > 16 * WEIGHTS / share


def test_the_same_script_gives_the_same_bytes_each_time(forked, torch_path, capsys):
    words = ["check", "--json", "--python", torch_path, "--device", "H100", "--run", LOOP, "train"]
    documents = set()
    for _ in range(sized(3, 10)):
        assert main(words) == 0
        documents.add(capsys.readouterr().out.splitlines()[-1])
    assert len(documents) == 1


@pytest.mark.packages("transformers")
def test_a_model_needs_its_configuration_but_not_its_weights(forked, cuda_path, tmp_path, capsys):
    configuration = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps({**configuration, "architectures": ["GPT2LMHeadModel"]}))
    script = str(PROGRAMS / "pretrained.py")
    words = ["check", "--json", "--python", cuda_path, "--run", script, str(tmp_path)]
    assert main(words) == 0
    captured = capsys.readouterr()
    (target,) = json.loads(captured.out.splitlines()[-1])["targets"]
    weights = 100 * 64 + 1024 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64  # the head's are the embedding's
    assert bytes_of(target, "parameter") == 4 * weights
    assert f"The weights of {tmp_path} were not read: its tensors are as its configuration says." in captured.err


@pytest.mark.packages("transformers")
def test_generated_texts_are_as_long_as_they_may_be(cuda_path, tmp_path):
    command = [sys.executable, "-m", "gputui", "check", "--python", cuda_path, "--run", str(PROGRAMS / "generating.py")]
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 beams: 12 tokens" in run.stderr
    assert "2 beams: " in run.stderr  # values say how much of them is kept


ENDINGS = {
    "exit": f"{LOOP} ended with exit status 3 before its first step. What it wrote is above.",
    "network": f"{LOOP} needs something from the network, which did not answer: URLError",
    "thread": "AttributeError: 'DeviceTensor' object has no attribute 'missing'",
    "job": f"{LOOP} joins a job of several ranks, and nothing says of how many. Say it with --world-size 8;",
}


@pytest.mark.parametrize(("what", "sentence"), ENDINGS.items(), ids=ENDINGS)
def test_a_script_that_takes_no_step_is_a_sentence(forked, torch_path, capsys, what, sentence):
    assert main(["check", "--python", torch_path, "--run", LOOP, what]) == 2
    assert sentence in capsys.readouterr().err


def test_a_script_without_an_end_is_given_up(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("while True:\n    pass\n")
    with pytest.raises(GputuiError, match=r"took no third step of an optimizer of PyTorch's within 1 s\. Give it more"):
        rehearse_program([str(script)], Surroundings(sys.executable, within_s=1.0))


def test_a_gputui_that_is_killed_leaves_no_program_behind(torch_path, tmp_path):
    (tmp_path / "endless.py").write_text(
        "import os\nprint(os.getpid(), file=open('pid', 'w'), flush=True)\nwhile True:\n    pass\n"
    )
    command = [sys.executable, "-m", "gputui", "check", "--python", torch_path, "--run", "endless.py"]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}) as gputui:
        told = tmp_path / "pid"
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"))
        gputui.kill()
    pid = told.read_text().strip()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_what_is_not_computed_of_a_rank_is_a_sentence(forked, torch_path, capsys):
    assert main(["check", "--python", torch_path, "--world-size", "2", "--run", LOOP, "context"]) == 2
    assert "context_parallel (loop.py:" in capsys.readouterr().err


@pytest.mark.quick
def test_a_script_that_asks_for_no_gpu_memory_is_a_sentence():
    with pytest.raises(GputuiError, match=r"train\.py ended without asking for GPU memory\."):
        rehearsal_of({"problem": "no_memory", "words": ""}, "train.py", "python")


@pytest.mark.quick
@pytest.mark.parametrize("left", ["", "50%", "\r50%"], ids=repr)
def test_the_answer_begins_on_a_line_of_its_own(left):
    """A progress bar leaves its line open."""
    stream = StringIO()
    output = Output(stream)
    print("begun", file=output)
    output.write(left)
    output.complete()
    assert stream.getvalue() == f"begun\n{left}{chr(10) if left else ''}"


class Terminal(StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.quick
def test_the_part_that_runs_is_shown_until_the_program_writes():
    stream = Terminal()
    output = Output(stream)
    output.show("step 1: forward pass ...")
    print("warning", file=output)
    output.write("50%")
    output.show("step 2: forward pass ...")  # it would take the place of what the program has not ended
    output.complete()
    assert stream.getvalue() == "\r\x1b[Kstep 1: forward pass ...\r\x1b[Kwarning\n50%\n"


REPORT = {
    "torch": "2.11.0",
    "values_read": 0,
    "largest_results": {},
    **dict.fromkeys(("events", "sizes_bytes", "categories", "modules", "element_bytes", "operations"), ()),
    **dict.fromkeys(("operation_names", "lines", "places", "marks", "streams"), ()),
}
FEW = {0: "No optimizer of PyTorch's took a step", 1: "after one step of its optimizer"}


@pytest.mark.quick
@pytest.mark.parametrize(("steps", "sentence"), FEW.items(), ids=str)
def test_few_steps_are_said(steps, sentence):
    rehearsal = rehearsal_of({**REPORT, "steps": steps, "is_uncompiled": True}, "train.py", "python")
    doubts = " ".join(doubts_of(rehearsal))
    assert sentence in doubts
    assert "torch.compile was left out" in doubts
