"""What holds a peak, and why one is higher than its baseline."""

from __future__ import annotations

import json

import pytest

from gputui.commands.printed.check import annotation, sentences_of
from gputui.errors import UsageError
from gputui.explain.check.baseline import Baseline, Part, baseline_of, baseline_text, baselines_of
from gputui.explain.check.checked import Checked, checked
from gputui.explain.check.target import Target
from gputui.units import GIB, MIB

TARGET = Target("train", "training:setup", {"batch": 32})


def of(rehearsals, name: str, baseline: Baseline | None = None, **target) -> Checked:
    made = Target("train", "training:setup", {"batch": 32}, **target)
    return checked(made, rehearsals[name], {"train": baseline} if baseline else {})


def test_what_holds_the_peak_adds_up_to_what_is_allocated(rehearsals):
    peak = of(rehearsals, "checkpointed").peak
    assert sum(holder.bytes for holder in peak.holders) == peak.allocated_bytes
    assert peak.allocated_bytes <= peak.reserved_bytes
    by_category = peak.bytes_by_category()
    parameters = sum(size for size, category in zip(*columns(rehearsals), strict=True) if category == "parameter")
    assert by_category["parameter"] == parameters
    assert by_category["optimizer_state"] == pytest.approx(2 * parameters, rel=0.01)


def test_what_nccl_takes_beside_it_is_said_of_a_job_of_several_ranks(rehearsals):
    assert "NCCL's own memory is not in these figures" in of(rehearsals, "whole", world_size=8).peak.doubts[-1]
    assert not any("NCCL" in doubt for doubt in of(rehearsals, "whole").peak.doubts)


def columns(rehearsals):
    rehearsal = rehearsals["checkpointed"]
    return rehearsal.sizes_bytes, rehearsal.categories


def test_each_holder_has_its_layer_operation_and_line(rehearsals):
    holders = of(rehearsals, "whole").peak.holders
    kept = next(holder for holder in holders if (holder.module, holder.operation) == ("layers.5", "gelu"))
    assert kept.category == "activation"
    assert kept.bytes == 32 * 256 * 4 * 256 * 4  # batch, words, four times the width, float32
    assert kept.line is not None
    assert kept.line.file.endswith("training.py")
    states = {holder.layer for holder in holders if holder.category == "optimizer_state"}
    assert {("layers", number) for number in range(8)} <= states


def test_a_rehearsal_is_the_same_to_the_byte(rehearsals):
    """Layers 0 to 4 and 7 do the same in both models."""
    one, other = (baseline_of(of(rehearsals, name).peak) for name in ("checkpointed", "whole"))
    alike = {part for part in one.parts if part.layer not in (5, None) and part.category != "workspace"}
    assert {part: one.parts[part] for part in alike} == {part: other.parts.get(part) for part in alike}


def test_a_layer_that_is_not_checkpointed_any_more_is_named_in_the_first_lines(rehearsals):
    before = baseline_of(of(rehearsals, "checkpointed").peak)
    check = of(rehearsals, "whole", before)
    assert check.fails
    first, second, third = sentences_of(check)
    assert first.startswith("train needs ")
    assert " against its baseline of " in first
    assert second.startswith("Activations of layers.5 hold +64.0 MiB (0 B before, 64.0 MiB now): ")
    assert "gelu +32.0 MiB" in second
    assert "training.py:" in second
    assert third.startswith("Held by ")


def test_layers_that_changed_alike_are_one_sentence(rehearsals):
    before = baseline_of(of(rehearsals, "checkpointed").peak)
    assert "As much more each: layers.6." in sentences_of(of(rehearsals, "two whole", before))


def test_an_annotation_points_at_the_line(rehearsals):
    before = baseline_of(of(rehearsals, "checkpointed").peak)
    line = annotation(of(rehearsals, "whole", before))
    assert line.startswith("::error file=")
    assert "training.py,line=" in line
    assert line.count("\n") == 1
    assert "%25)" in line  # a percent sign
    assert annotation(of(rehearsals, "checkpointed", before)).startswith("::notice title=")


def test_a_baseline_is_read_as_it_was_written(rehearsals):
    baseline = baseline_of(of(rehearsals, "two whole").peak)
    text = baseline_text({"train": baseline})
    assert baselines_of(text, "memory.json") == {"train": baseline}
    assert len(text.splitlines()) < 40  # equal layers are one line
    assert baseline_text(baselines_of(text, "memory.json")) == text


def test_a_list_that_holds_as_much_as_each_of_its_layers_is_read_as_it_was_written():
    parts = {Part("activation", "layers", layer, "gelu"): MIB for layer in (None, 0, 1)}
    baseline = Baseline("2.11.0", 3 * MIB, 3 * MIB, parts)
    assert baselines_of(baseline_text({"train": baseline}), "memory.json") == {"train": baseline}


WRONG = {
    "no JSON": "{",
    "another document": "[]",
    "no targets": '{"schema": "gputui.check-baseline/1"}',
    "a later schema": '{"schema": "gputui.check-baseline/9", "targets": {}}',
    "endless layers": json.dumps({
        "schema": "gputui.check-baseline/1",
        "targets": {"x": {
            "torch": "2", "peak_reserved_bytes": 1, "peak_allocated_bytes": 1,
            "parts": [{"category": "a", "module": "b", "operation": "c", "bytes": 1, "layers": [[0, 1 << 60]]}],
        }},
    }),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_baseline_is_a_sentence(text):
    with pytest.raises(UsageError, match=r"memory\.json .*--update"):
        baselines_of(text, "memory.json")


def test_a_peak_may_rise_by_its_tolerance(rehearsals):
    before = baseline_of(of(rehearsals, "checkpointed").peak)
    assert of(rehearsals, "whole", before, tolerance=1.0).fails is False
    assert of(rehearsals, "checkpointed", baseline_of(of(rehearsals, "whole").peak)).fails is False


def test_a_budget_is_met_with_what_is_to_spare_or_missed_by_what_is_lacking(rehearsals):
    need = of(rehearsals, "checkpointed").peak.reserved_bytes
    fits, misses = (of(rehearsals, "checkpointed", budget_bytes=size) for size in (GIB, need // 2))
    assert (fits.fits, fits.fails) == (True, False)
    assert "fits 1.0 GiB with " in sentences_of(fits)[0]
    assert (misses.fits, misses.fails) == (False, True)
    assert "more than its budget of " in sentences_of(misses)[0]


def test_a_peak_that_has_risen_above_its_budget_says_both(rehearsals):
    before = of(rehearsals, "checkpointed").peak
    check = of(rehearsals, "two whole", baseline_of(before), budget_bytes=before.reserved_bytes // 2)
    assert (check.fits, check.is_risen) == (False, True)
    for words in (" against its baseline of ", "more than its budget of ", "Activations of layers.5 hold "):
        assert words in " ".join(sentences_of(check))
        assert words in annotation(check)


def test_a_plan_begins_with_the_cheapest_change(rehearsals):
    target = Target("train", "training:setup", {"batch": 32}, budget_bytes=GIB)
    plan = checked(target, rehearsals["two whole"], {}, with_plan=True).plan
    labels = [option.answer.case.label for option in plan]
    assert labels[:3] == ["as written", "expandable_segments:True", "8-bit optimizer states"]
    assert all(option.spare_bytes is not None and option.largest is not None for option in plan)
    batches = {label: option.largest.batch for label, option in zip(labels, plan, strict=True) if option.largest}
    assert batches["as written"] >= 32
    assert batches["all in bfloat16"] > batches["as written"]
