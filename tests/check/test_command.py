"""`gputui check` as a project's CI runs it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from gputui.cli import main
from gputui.explain.check.baseline import Baseline, baseline_text
from tests import torches
from tests.check.conftest import PROGRAMS
from tests.forkserver import Forked
from tests.hanging import HANGS_S

PROJECT = """[[tool.gputui.check]]
name = "small"
function = "training:setup"
arguments = {batch = 32}
budget = "1GiB"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(PROGRAMS / "training.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_change_that_needs_more_fails_with_its_reason(forked, project, monkeypatch, capsys, torch_path):
    words = ["check", "--baseline", "memory.json", "--python", torch_path]
    assert main([*words, "--update", "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    (target,) = document["targets"]
    assert (target["name"], target["fits"], target["changes"]) == ("small", True, [])
    assert sum(holder["bytes"] for holder in target["holders"]) == target["peak_allocated_bytes"]
    monkeypatch.setenv("WHOLE", "2")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "page.md"))
    assert main(words) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Activations of layers.2 hold +64.0 MiB (0 B before, 64.0 MiB now): gelu +32.0 MiB")
    assert any(line.startswith("::error file=training.py,line=") for line in lines)
    assert "| small | " in (project / "page.md").read_text()


MISTAKES = {
    "no baseline": (["--baseline", "none.json"], "There is no baseline none.json. Make it with --update"),
    "nothing to update": (["--update"], "--update writes the baseline, and none is named."),
    "unknown target": (["big"], "pyproject.toml has no target 'big' in [[tool.gputui.check]]. It has small."),
    "a script": (["train.py"], "'train.py' is a script, not a function. Write gputui check --run train.py"),
    "unknown device": (["--device", "H10"], "The memory of a 'H10' is not known. Did you mean"),
    "device and budget": (["--device", "H100", "--budget", "1GiB"], "Give one of them."),
    "a budget in words": (["--budget", "much"], "Write a size with its unit, such as 24GiB."),
    "a budget without a unit": (["--budget", "80"], "Write a size with its unit, such as 24GiB."),
    "a tolerance in words": (["--tolerance", "little"], "Write a share in percent, such as 2%."),
    "no program": (["--run"], "No program is named to run. For example: gputui check --run train.py"),
    "a launcher": (["--run", "torchrun", "train.py"], "Name the script itself: gputui check --world-size 8 --run"),
    "no program behind =": (["--run="], "No program is named to run."),
    "an option behind --run": (["--run", "--json", "train.py"], "Options of gputui go before --run"),
    "no such Python": (["--run", "/none/bin/python", "training.py"], "/none/bin/python cannot be run"),
    "no such script": (["--run", "python", "none.py"], "There is no file none.py."),
    "no such script behind =": (["--run=none.py"], "There is no file none.py."),
    "a script with an argument like a server": (["--run", "none.py", "--backend", "vllm"], "There is no file none.py."),
    "a target and a program": (["small", "--run", "train.py"], "--run is in the place of a target, and small is one."),
    "a rank too many": (["--world-size", "4", "--rank", "4"], "There is no rank 4 of 4. Ranks are from 0 to 3"),
    "no ranks": (["--world-size", "0"], "A job cannot have 0 ranks."),
    "a limit in words": (["--within", "long"], "--within should be a time from 1s to 365d"),
    "a plan for nothing": (["training:setup", "--plan"], "A plan is for a device, and none is named."),
}


@pytest.mark.quick
@pytest.mark.parametrize(("words", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_on_the_command_line_is_a_sentence(project, capsys, words, sentence):
    assert main(["check", *words]) == 2
    assert sentence in capsys.readouterr().err


WRONG_TABLES = {
    "no table": ("", "pyproject.toml has no list of tables [[tool.gputui.check]]."),
    "one table": ('[tool.gputui]\ncheck = "x"\n', "pyproject.toml has no list of tables"),
    "no function": ('[[tool.gputui.check]]\nname = "x"\n', "A target of [[tool.gputui.check]] names no function"),
    "two steps in one": ('[[tool.gputui.check]]\nfunction = "a:b"\nrun = "c.py"\n', "or both. Write function ="),
    "a rank in words": ('[[tool.gputui.check]]\nrun = "c.py"\nrank = "1"\n', "rank of a target"),
    "a misspelt key": ('[[tool.gputui.check]]\nfunction = "a:b"\nbuget = "1GiB"\n', "Did you mean budget?"),
    "a number": ('[[tool.gputui.check]]\nfunction = "a:b"\nbudget = 20\n', "Write a text in quotes."),
    "no TOML": ("[[", "pyproject.toml is not TOML: "),
}


@pytest.mark.quick
@pytest.mark.parametrize(("text", "sentence"), WRONG_TABLES.values(), ids=WRONG_TABLES)
def test_a_mistake_in_the_table_is_a_sentence(project, capsys, text, sentence):
    (project / "pyproject.toml").write_text(text)
    assert main(["check"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_target_that_fails_does_not_keep_others_from_their_answer(forked, project, capsys, torch_path):
    """The one that is answered needs more than its baseline, which another version of PyTorch made."""
    (project / "memory.json").write_text(baseline_text({"training:setup": Baseline("2.0.0", 1, 1, {})}))
    words = ["training:broken", "training:setup", "--baseline", "memory.json", "--python", torch_path]
    assert main(["check", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("training:setup needs ")
    assert "training:broken: training:broken failed on tensors without data: RuntimeError" in captured.err
    assert "The baseline of training:setup was made with PyTorch 2.0.0" in captured.err
    assert "memory.json has nothing about training:broken" not in captured.err


TESTS = """import pytest, training

@pytest.mark.gpu_peak("64MiB")
def test_a_step(gpu_peak):
    gpu_peak(training.setup, batch=32)
"""


def run_tests(project: Path, torch_path: str, *words: str) -> str:
    """What pytest prints of the project's tests, on fake GPUs."""
    (project / "test_memory.py").write_text(TESTS)
    plugin = ["-p", "no:gputui", "-p", "gputui.pytest_plugin", "-p", "no:cacheprovider"]  # installed or not
    variables = {**os.environ, "PYTHONPATH": str(torches.REPOSITORY), **torches.fake_cuda(torch_path, project)}
    (project / "started.py").write_text("import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n")
    command = ["started.py", "-q", "--rootdir", str(project), *plugin, *words, "test_memory.py"]
    with TemporaryFile() as output, TemporaryFile() as errors:
        pytest_run = Forked(
            torch_path, command, torches.FORKED_AFTER, env=variables, cwd=project, stdout=output, stderr=errors
        )
        pytest_run.wait(HANGS_S)
        output.seek(0)
        return output.read().decode()


def test_the_plugin_of_pytest_fails_with_what_holds_the_peak(project, torch_path):
    output = " ".join(run_tests(project, torch_path).split())
    assert "more than its budget of 64.0 MiB" in output
    assert "layers.*.up" in output
    assert "1 failed" in output


def test_the_plugin_of_pytest_can_measure_on_a_gpu(project, cuda_path):
    output = run_tests(project, cuda_path, "--gpu-peak=measure")
    assert "at its peak, measured on this GPU: more than its budget of 64.0 MiB." in output
    assert "1 failed" in output
