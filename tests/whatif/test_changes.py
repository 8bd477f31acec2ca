"""Changes of the program as cases, against programs that were changed so and really ran."""

from __future__ import annotations

import json
from array import array

import pytest

from gputui.cli import main
from gputui.errors import UsageError
from gputui.explain.whatif.ahead import recorded_ahead
from gputui.explain.whatif.allocator.settings import DEFAULTS, Device
from gputui.explain.whatif.by_hand import case_of
from gputui.explain.whatif.cases import AS_WRITTEN, Case, Known, answer, default_cases
from gputui.explain.whatif.changes import CHEAPEST_FIRST, cheapest_first, label_of
from gputui.explain.whatif.replay.recorded import Recorded
from gputui.model.attached.trace import Rehearsal
from gputui.sources.rehearsal import rehearsal_of
from gputui.units import MIB
from tests.whatif.conftest import WORKSPACE
from tests.whatif.test_ahead import TOLERANCE
from tests.whatif.test_command import HISTORY

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"


class Steps:
    """Steps of training, written by hand."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.marks: list[tuple[int, str]] = []
        self._columns: list[tuple[int, str, str]] = []

    def part(self, name: str) -> None:
        self.marks.append((len(self.events), name))

    def malloc(self, category: str, size_mib: int = 4, module: str = "") -> int:
        self.events.append(len(self._columns))
        self._columns.append((size_mib * MIB, category, module))
        return len(self._columns) - 1

    def free(self, *numbers: int) -> None:
        self.events.extend(-1 - number for number in numbers)

    def recorded(self) -> Recorded:
        sizes, categories, modules = zip(*self._columns, strict=True)
        rehearsal = Rehearsal(
            "2.11.0",
            array("q", self.events),
            array("Q", sizes),
            categories,
            modules,
            bytes([4]) * len(sizes),
            ("",) * len(sizes),
            (None,) * len(sizes),
            tuple(self.marks),
            0,
            {},
        )
        return recorded_ahead(rehearsal, DEFAULTS, Device())


def trained(*, frees_gradients_in_forward: bool = False, keeps_gradients: bool = False) -> Recorded:
    """Two steps of a model of two layers: 8 MiB of parameters, gradients of as much, states of twice as much."""
    steps = Steps()
    steps.part("model")
    steps.malloc("parameter")
    steps.malloc("parameter")
    gradients: list[int] = []
    for step in range(2):
        steps.part(FORWARD)
        saved = [steps.malloc("activation", 10, f"layers.{layer}") for layer in (0, 0, 0, 1, 1, 1)]
        if frees_gradients_in_forward:
            steps.free(*gradients)
        steps.part(BACKWARD)
        makes_gradients = not (keeps_gradients and step)
        gradients = [steps.malloc("gradient")] if makes_gradients else []
        steps.free(*reversed(saved[3:]))
        gradients += [steps.malloc("gradient")] if makes_gradients else []
        steps.free(*reversed(saved[:3]))
        steps.part(OPTIMIZER)
        for _ in range(0 if step else 4):
            steps.malloc("optimizer_state")
        if not (frees_gradients_in_forward or keeps_gradients):
            steps.free(*gradients)
    return steps.recorded()


def peak(recorded: Recorded, *changes: str) -> int:
    outcome = answer(recorded, Case("", changes=changes))
    assert outcome.known is Known.ESTIMATED
    return outcome.outcome.peak_allocated_bytes // MIB


def test_gradients_are_freed_before_the_forward_pass():
    assert peak(trained(frees_gradients_in_forward=True)) == 8 + 16 + 60 + 8
    assert peak(trained(frees_gradients_in_forward=True), "set-to-none") == 8 + 16 + 60 + 4
    assert "set-to-none" not in offered(trained())


def test_gradients_that_are_zeroed_in_place_are_made_again():
    assert peak(trained(keeps_gradients=True)) == 8 + 8 + 16 + 60
    assert peak(trained(keeps_gradients=True), "set-to-none") == 8 + 16 + 60 + 4


def test_eight_bit_states_have_a_byte_for_each_element_and_scales():
    elements = 4 * MIB // 4
    saved = 4 * (4 * MIB - elements - elements // 64)
    before, after = (
        answer(trained(), case).outcome.peak_allocated_bytes
        for case in (AS_WRITTEN, Case("", changes=("8-bit-states",)))
    )
    assert before - after == pytest.approx(saved, abs=4096)


def test_eight_bit_states_stay_as_they_are_in_half_precision():
    states_alone, both = (
        answer(trained(), Case("", changes=changes)).outcome.allocated_bytes
        for changes in (("8-bit-states",), ("8-bit-states", "bfloat16"))
    )
    assert states_alone - both == 4 * MIB  # half of the parameters


def test_half_precision_takes_half():
    assert peak(trained(), "bfloat16") == pytest.approx(peak(trained()) / 2, abs=1)


def test_a_checkpointed_layer_is_made_again_alone():
    assert peak(trained()) == 8 + 16 + 60 + 4
    assert peak(trained(), "checkpointing") == 8 + 16 + 10 + 30  # the first layer's output, all of the second


def test_an_evaluation_has_no_states_and_few_activations():
    assert peak(trained(), "no-grad") == 8 + 3 * 10


def test_changes_go_together():
    together = peak(trained(), "bfloat16", "checkpointing")
    assert together == pytest.approx(peak(trained(), "checkpointing") / 2, abs=1)


def offered(recorded: Recorded) -> list[str]:
    assert recorded.parts is not None
    names = cheapest_first(recorded.operations, recorded.parts)
    return [some[0] for some in names if len(some) == 1]


def test_the_cases_have_what_would_change_something():
    labels = [case.label for case in default_cases(trained())]
    expected = [label_of(names) for names in CHEAPEST_FIRST if "set-to-none" not in names]
    assert labels[-len(expected) :] == expected


def test_a_change_of_nothing_is_refused():
    with pytest.raises(UsageError, match="nothing that set-to-none would change"):
        answer(trained(), Case("", changes=("set-to-none",)))


def test_a_case_by_hand_takes_changes():
    case = case_of("8-bit-states expandable_segments:True 4:16")
    assert (case.changes, case.settings, case.batch) == (("8-bit-states",), "expandable_segments:True", (4, 16))


def test_a_size_by_hand_has_a_unit():
    assert case_of("24G").device_memory_bytes == case_of("24GiB").device_memory_bytes == 24 << 30
    with pytest.raises(UsageError, match=r"memory cannot be '24'\. Write a size with its unit"):
        case_of("24")


def test_a_recorded_trace_offers_changes_that_its_phases_allow(capsys):
    assert main(["whatif", HISTORY, "--with", "no-grad", "--json"]) == 0
    case = json.loads(capsys.readouterr().out)["cases"][0]
    assert case["changes"] == ["no-grad"]
    assert case["known"] == "estimated"
    assert main(["whatif", HISTORY, "--with", "checkpoint"]) == 2
    assert "Did you mean checkpointing?" in capsys.readouterr().err


REAL = {
    "checkpointing": ("gpt-checkpointed", 4, "none"),
    "no-grad": ("gpt", 4, "none", "evaluation"),
}


@pytest.mark.parametrize(("change", "program"), REAL.items(), ids=REAL)
def test_a_change_takes_what_a_changed_program_takes(run, reports, change, program):
    written = recorded_ahead(rehearsal_of(reports["gpt"], "ahead:gpt", "python"), DEFAULTS, Device())
    real = run("training_steps.py", *program, variables=WORKSPACE)
    outcome = answer(written, Case("", changes=(change,))).outcome
    assert outcome.peak_reserved_bytes == pytest.approx(real["peak_reserved_bytes"], rel=TOLERANCE)
    assert outcome.peak_allocated_bytes == pytest.approx(real["peak_allocated_bytes"], rel=TOLERANCE)
