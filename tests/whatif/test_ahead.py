"""`gputui whatif --model`: steps on tensors without data, against steps that really ran."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from gputui.cli import main
from gputui.errors import GputuiError
from gputui.explain.whatif.ahead import recorded_ahead
from gputui.explain.whatif.allocator.settings import DEFAULTS, Device
from gputui.explain.whatif.cases import AS_WRITTEN, Case, Known, answer
from gputui.model.attached.trace import Rehearsal
from gputui.sources.rehearsal import Surroundings, rehearsal_of, rehearse
from gputui.units import MIB
from tests.check.conftest import forked
from tests.whatif.conftest import PROGRAMS, WORKSPACE

__all__ = ["forked"]

TOLERANCE = 0.1


def rehearsed(report: dict[str, Any]) -> Rehearsal:
    return rehearsal_of(report, "ahead:function", "python")


@pytest.mark.parametrize("model", ["gpt", "lora", "resnet", "unet"])
def test_the_peak_is_that_of_a_real_run(run, reports, model):
    real = run("training_steps.py", model, 4, "none", variables=WORKSPACE)
    outcome = answer(recorded_ahead(rehearsed(reports[model]), DEFAULTS, Device()), AS_WRITTEN)
    assert outcome.known is Known.ESTIMATED
    assert outcome.outcome.peak_allocated_bytes == pytest.approx(real["peak_allocated_bytes"], rel=TOLERANCE)
    assert outcome.outcome.peak_reserved_bytes == pytest.approx(real["peak_reserved_bytes"], rel=TOLERANCE)


def test_another_batch_takes_what_a_real_run_takes(run, reports):
    real = run("training_steps.py", "gpt", 16, "none", variables=WORKSPACE)
    recorded = recorded_ahead(rehearsed(reports["gpt"]), DEFAULTS, Device())
    outcome = answer(recorded, Case("batch", batch=(4, 16))).outcome
    assert outcome.peak_reserved_bytes == pytest.approx(real["peak_reserved_bytes"], rel=TOLERANCE)


PARTS = {
    "evaluation": ["model", "batch", "forward", "forward"],
    "dictionary": ["model", "batch", *["forward", "backward", "optimizer"] * 2],
    "step": ["model", "batch", "step", "step"],
}


@pytest.mark.parametrize(("form", "parts"), PARTS.items(), ids=PARTS)
def test_a_function_may_return(reports, form, parts):
    assert [name for _, name in rehearsed(reports[form]).marks] == parts


def bytes_by_category(rehearsal: Rehearsal) -> dict[str, int]:
    by_category: dict[str, int] = {}
    for category, size_bytes in zip(rehearsal.categories, rehearsal.sizes_bytes, strict=True):
        by_category[category] = by_category.get(category, 0) + size_bytes
    return by_category


def test_each_request_has_its_category_and_module(reports):
    rehearsal = rehearsed(reports["dictionary"])
    by_category = bytes_by_category(rehearsal)
    assert by_category["parameter"] == 4 * MIB
    assert by_category["gradient"] == 2 * 4 * MIB
    assert by_category["optimizer_state"] == 2 * 4 * MIB
    assert "layer" in rehearsal.modules


def test_a_model_that_is_made_in_host_memory_is_moved_with_what_its_optimizer_and_its_layers_share(reports):
    by_category = bytes_by_category(rehearsed(reports["on_host"]))
    assert by_category["parameter"] == 4 * MIB
    assert by_category["optimizer_state"] == 2 * 4 * MIB


def test_values_that_nobody_knows_are_said(reports):
    step, masked = rehearsed(reports["step"]), rehearsed(reports["masked"])
    assert step.values_read > 0
    assert masked.largest_results == {"index": 2}
    doubts = " ".join(recorded_ahead(masked, DEFAULTS, Device()).doubts)
    assert "The size of what index gives depends on values (2 times)" in doubts


MISTAKES = {
    "number": "ahead:function returned something else than expected: int. It returns model, optimizer, batch;",
    "broken": "must have same reduction dim",
    "unknown_size": "aten._unique2.default (ahead.py:",
    "compiled": "ahead:function needs a GPU to be there at ahead.py:",
}


@pytest.mark.parametrize(("name", "sentence"), MISTAKES.items(), ids=MISTAKES)
def test_what_cannot_be_run_is_said(reports, name, sentence):
    with pytest.raises(GputuiError) as raised:
        rehearsed(reports[name])
    assert sentence in str(raised.value)
    assert raised.value.remedy


def test_a_python_without_torch_is_said(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(GputuiError, match=r"PyTorch cannot be imported by .*--python PATH"):
        rehearse("ahead:gpt", surroundings=Surroundings(str(python)))


def test_the_command_prints_the_document(forked, capsys, monkeypatch, torch_path):
    monkeypatch.chdir(PROGRAMS)
    words = ["--model", "ahead:evaluation", "--python", torch_path, "--batch", "16:32", "--device-memory", "1GiB"]
    assert main(["whatif", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["baseline"]["known"] == document["cases"][0]["known"] == "estimated"
    assert document["baseline"]["peak_allocated_bytes"] >= 4 * MIB
    assert document["largest_batch"] > 32
    assert any("Nothing ran" in problem for problem in document["problems"])


@pytest.mark.parametrize("words", [[], ["memory.pickle", "--model", "a:b"], ["--model", "train"]], ids=str)
def test_a_wrong_command_line_is_refused(words):
    assert main(["whatif", *words]) == 2


def test_a_misspelt_function_has_a_suggestion(reports):
    with pytest.raises(GputuiError, match=r"Did you mean evaluation\?"):
        rehearsal_of(reports["evaluatoin"], "ahead:evaluatoin", "python")
