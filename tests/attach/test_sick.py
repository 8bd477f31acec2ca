"""Real programs with one sickness each: the answer names the holder and the remedy; cured, they get no such finding.

Fragmentation is in `test_why.py`, and the recordings of these programs are in `tests/explain/answer/test_examples.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputui.explain.answer.answers import Answer
from gputui.model.weight import Weight
from tests import torches
from tests.attach.children import DRIVEN, Python
from tests.attach.following import MOMENTS_AT_MOST, follow, of_kind, words
from tests.scale import SCALE
from tests.sicknesses import LINE, SICK

PROGRAM = Path(__file__).parent / "programs" / "sick.py"
MOMENTS_OF_HEALTH = 60 * SCALE
"""Ten or more a second: a program counts as idle after 4 s."""


HEALTHY = [
    "healthy_training", "healthy_varying_lengths", "healthy_evaluation", "healthy_metrics", "healthy_accumulation",
    "healthy_idle",
]  # fmt: skip

CURED_IN_DAILY_USE = ["losses_kept", "graph_kept_idle", "second_model"]
HEALTHY_IN_DAILY_USE = ["healthy_training", "healthy_idle"]
"""The nightly run watches all of them, and for longer."""

Watch = Callable[..., Answer]


@pytest.fixture
def watch(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Watch]:
    """Runs a program and follows it as the screens do, until `is_enough(answer)` or for so many moments."""
    pythons: list[Python] = []

    def run(*arguments: str, is_enough: Callable[[Answer], bool], moments: int = MOMENTS_AT_MOST) -> Answer:
        python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, memory_gib=4.0))
        pythons.append(python)
        child = python.fork(PROGRAM, *arguments, **DRIVEN)
        child.expect("ready")
        return follow(child.attach(), is_enough, moments)

    yield run
    for python in pythons:
        python.end()


@pytest.mark.parametrize("name", [name for name in SICK if name != "growing_lengths"])
def test_the_answer_names_the_holder_and_the_remedy(watch: Watch, name: str) -> None:
    sickness = SICK[name]

    def is_named(answer: Answer) -> bool:
        finding = of_kind(answer, sickness.kind)
        if finding is None or sickness.holder not in words(finding):
            return False
        told = finding.title if sickness.line else " ".join(finding.evidence)
        return not (sickness.line or sickness.call) or LINE.search(told) is not None

    answer = watch(name, is_enough=is_named)
    finding = of_kind(answer, sickness.kind)
    assert finding is not None, [finding.title for finding in answer.findings]
    assert is_named(answer), words(finding)
    assert sickness.remedy in finding.remedy
    assert finding.weight is not Weight.FACT
    assert answer.verdict is not None
    for statement, told in ((sickness.line, finding.title), (sickness.call, " ".join(finding.evidence))):
        place = LINE.search(told) if statement else None
        lines = [PROGRAM.read_text().splitlines()[int(number) - 1] for number in place[1].split(", ")] if place else []
        assert not statement or any(statement in line for line in lines), told


STATEMENTS = {
    "module": "out = model(x)",
    "function": "out = None\n\ndef evaluate():\n    global out\n    out = model(x)\n",
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_the_answer_names_the_line_of_a_script_that_assigns_a_global_variable(
    statement: str, cuda_path: str, tmp_path: Path, sockets: Path
) -> None:
    script = f"""
import time, torch, gputui.probe
with torch.device("cuda"):
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(16)))
x = torch.randn(4096, 1024, device="cuda")
{statement}
if "evaluate" in globals():
    evaluate()
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, memory_gib=4.0))
    child = python.fork(script, **DRIVEN)
    child.expect("ready")
    lines = [str(number) for number, line in enumerate(script.splitlines(), 1) if line.strip().startswith("out = ")]
    title = f"out (train.py:{', '.join(lines)}) keeps an autograd graph"

    def is_named(answer: Answer) -> bool:
        finding = of_kind(answer, "kept_graph")
        return finding is not None and title in finding.title

    answer = follow(child.attach(), is_named)
    python.end()
    assert is_named(answer), [finding.title for finding in answer.findings]


@pytest.mark.long
@pytest.mark.parametrize("name", SICK if SCALE > 1 else CURED_IN_DAILY_USE)
def test_a_cured_program_does_not_get_the_finding(watch: Watch, name: str) -> None:
    answer = watch(name, "cure", is_enough=lambda _: False, moments=MOMENTS_OF_HEALTH)
    assert of_kind(answer, SICK[name].kind) is None


@pytest.mark.long
@pytest.mark.parametrize("name", HEALTHY if SCALE > 1 else HEALTHY_IN_DAILY_USE)
def test_a_healthy_program_gets_no_finding_of_weight(watch: Watch, name: str) -> None:
    answer = watch(name, is_enough=weighty, moments=MOMENTS_OF_HEALTH)
    assert weighty(answer) == []


def weighty(answer: Answer) -> list[str]:
    """The titles of the findings that say that something is wrong."""
    return [finding.title for finding in answer.findings if finding.weight is not Weight.FACT]
