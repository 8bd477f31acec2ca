"""Sick programs as cells of a notebook: the answer names the variable and the remedy, which makes the finding go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputui.explain.answer.answers import Answer
from gputui.model.weight import Weight
from tests import torches
from tests.attach.children import Python
from tests.attach.following import follow, of_kind, words
from tests.attach.kernel import Kernel
from tests.scale import SCALE

FIRST = """
    def build():
        with torch.device("cuda"):
            return torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(24)))

    model = build()
    x = torch.randn(4096, 2048, device="cuda")
"""
TRAIN = """
    optimizer = torch.optim.AdamW(model.parameters())
    model(x[:64]).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@dataclass(frozen=True)
class Cells:
    """Cells with a sickness, the finding that names it, a pattern of the holder, the remedy's words and as a cell."""

    cells: tuple[str, ...]
    kind: str
    holder: str
    remedy: str
    cure: str


NOTEBOOKS = {
    "graph kept by a variable": Cells(
        ("def f():\n    out = 1\n\nout = model(x)",), "kept_graph", r"out \(cell \d+:4\) keeps an autograd graph",
        "del out", "del out",
    ),
    "no_grad forgotten": Cells(
        ("scores = 0", "for _ in range(8):\n    scores = scores + model(x[:1024]).square().mean()"),
        "kept_graph", r"scores \(cell \d+:2\) keeps an autograd graph", "scores.detach()", "scores = scores.detach()",
    ),
    "a model that was built again": Cells(
        (TRAIN, "model = build()"), "kept_by_optimizer", "optimizer keeps the parameters of a model that was replaced",
        "Create the optimizer again", "optimizer = torch.optim.AdamW(model.parameters())",
    ),
    "gradients left": Cells(
        ("model(x[:64]).square().mean().backward()",), "kept_gradients", "model still has",
        "model.zero_grad(set_to_none=True)", "model.zero_grad(set_to_none=True)",
    ),
    "an output": Cells(
        ("model(x)",), "kept_by_output", r"Out\[", "%xdel _", "%reset -f out\n_ = __ = ___ = 0"
    ),
    "an error": Cells(
        ("def fail():\n    hidden = model(x)\n    raise ValueError(hidden.shape)", "fail()"), "kept_by_exception",
        "The exception of cell ", "gc.collect()",
        "import sys, gc; sys.last_value = sys.last_traceback = sys.last_exc = None\n"
        "get_ipython().InteractiveTB.tb = get_ipython().last_execution_result = None; gc.collect()",
    ),
}  # fmt: skip
IN_DAILY_USE = ["graph kept by a variable"]
MOMENTS_OF_HEALTH = 80
"""Ten a second: a kernel counts as idle, and what it keeps as kept, after half of them."""


@pytest.fixture
def kernel(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Kernel]:
    """A kernel with a model on a device of 8 GiB."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, memory_gib=8.0))
    kernel = Kernel(python)
    kernel.run(FIRST)
    yield kernel
    kernel.close()
    python.end()


@pytest.mark.long
def test_the_answer_between_cells_names_the_holder_and_its_remedy_makes_the_finding_go(kernel: Kernel) -> None:
    """One kernel for all of them, since it takes seconds to start."""
    for name in NOTEBOOKS if SCALE > 1 else IN_DAILY_USE:
        case = NOTEBOOKS[name]
        for cell in case.cells:
            kernel.run(cell)

        def is_found(answer: Answer, case: Cells = case) -> bool:
            finding = of_kind(answer, case.kind)
            return finding is not None and re.search(case.holder, words(finding)) is not None

        answer = follow(kernel.attach(), is_found)
        finding = of_kind(answer, case.kind)
        assert finding is not None, name
        assert re.search(case.holder, words(finding)), name
        assert case.remedy in finding.remedy, name
        assert finding.weight is not Weight.FACT, name
        assert answer.verdict is not None
        kernel.run(case.cure)
        later = follow(kernel.attach(), is_found, MOMENTS_OF_HEALTH)
        assert of_kind(later, case.kind) is None, name
