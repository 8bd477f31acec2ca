"""Out-of-memory errors under transformers' Trainer, Lightning, accelerate and peft, in each part of a step.

They need an interpreter that has these packages, the dependency group `real`:

    GPUTUI_TEST_TORCH=venv/bin/python pytest tests/blackbox/test_frameworks.py
"""

from __future__ import annotations

import pytest

from gputui.explain.failure.analysis import analysis_of
from gputui.model.attached.failure import Phase
from gputui.probe.inventory.run import SAVED_UNKNOWN
from gputui.sources.files.black_box import BlackBox
from tests.blackbox.checks import (
    LAST_LINE,
    NAMED,
    NAMED_WITHOUT_SAVED,
    check_as_without,
    check_sums,
    requested_bytes_in,
)
from tests.blackbox.conftest import PROGRAMS, Fail

PROGRAM = "frameworks.py"
SOURCE = (PROGRAMS / PROGRAM).read_text().splitlines()
PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}
CASES = [
    *((framework, phase) for framework in ("trainer", "lightning", "accelerate") for phase in PHASES),
    ("peft", "forward"),
    ("peft", "backward"),
]


@pytest.mark.packages("transformers", "lightning", "accelerate", "peft")
@pytest.mark.every_torch
@pytest.mark.parametrize(("framework", "phase"), CASES, ids=map("-".join, CASES))
def test_under_a_framework_the_box_has_the_request_its_place_and_every_byte(
    fail: Fail, framework: str, phase: str
) -> None:
    ended = fail(PROGRAM, framework, phase, CUDA_VISIBLE_DEVICES="0")
    box = ended.box
    analysis = analysis_of(box.moment)
    assert analysis is not None
    assert ended.errors.splitlines()[-1] == LAST_LINE.format(ended.boxes[0])
    assert (box.failure.requested_bytes, analysis.phase) == (requested_bytes_in(box.failure.message), PHASES[phase])
    check_sums(box, NAMED_WITHOUT_SAVED if lacks_saved(box) else NAMED)
    trains = next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# trains: {framework}"))
    assert trains in {site.line for site in (analysis.place, *analysis.callers) if site and site.file.endswith(PROGRAM)}
    check_as_without(ended, fail(PROGRAM, framework, phase, folder="", CUDA_VISIBLE_DEVICES="0"))


def lacks_saved(box: BlackBox) -> bool:
    """Whether the box says that it lacks the tensors saved for backward, as it has to before PyTorch 2.10."""
    torch = tuple(map(int, box.moment.greeting.torch.split(".")[:2]))
    look = box.moment.look
    assert look is not None
    assert look.inventory is not None
    says_so = SAVED_UNKNOWN in [problem.text for problem in look.inventory.problems]
    assert says_so == (torch < (2, 10))
    return says_so
