"""The first lines of `gputui attach PID --once` answer what people have asked in public; see README.md.

Each program rests when it keeps what the reporter asked about, and prints how much that is. The line to change has the
comment `# keeps`. With the argument `fixed` it does what the answer to the report says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import torches
from tests.attach.children import Child, Python
from tests.attach.command import attach

PROGRAMS = Path(__file__).parent / "programs"
LITTLE = 0.1
"""Of what was kept: what the mended program may keep for its present step."""


class Report(NamedTuple):
    """What the first three lines say of a program (a pattern), the kind of the finding, and words of its remedy."""

    program: str
    says: str
    kind: str
    remedy: str
    has_line: bool = True
    """Whether one line of the program is to blame."""


REPORTS = (
    Report("hook_handles", re.escape("encoder.*._forward_hooks[*].features"), "kept_variable", "Append feature.cpu()"),
    Report("module_activations", re.escape("model.layers.*.activations"), "kept_variable", "Append activation.cpu()"),
    Report("metric_states", re.escape("task.val_curve.preds"), "kept_variable", "Append pred.detach() instead of pred"),
    Report("hidden_state", "hidden", "kept_variable", "Detach it once in each step (hidden = hidden.detach())"),
    Report("optimizer_history", re.escape("batcher.state.history"), "kept_variable", "Detach it once in each step"),
    Report("fold_results", "xval_results", "kept_variable", "Append tensor.cpu()"),
    Report("ensemble", re.escape("ensemble.learners"), "kept_variable", "move a model that is ready to host memory"),
    Report(
        "fold_schedulers",
        r"gc\.collect\(\) would free .*\bWarmup\b.*\bstep\b",
        "kept_by_cycle",
        "runs gc.collect()",
    ),
    Report("abandoned_capture", "A failed capture of a CUDA graph", "failed_capture", "", has_line=False),
    Report("hook_of_self", r"gc\.collect\(\) would free .*\bNet\b.*\bhook\b", "kept_by_cycle", "hook()"),
    Report("cached_masks", re.escape("held by mask (cached_masks.py:9 in mask)"), "kept_variable", "maxsize"),
    Report("resumed", re.escape("checkpoint['model'][*] holds a copy of the weights"), "weight_copy", "del checkpoint"),
    Report("row_views", "rows", "small_views", "clone()"),
    Report("validation_history", re.escape("experiment.history['val'][0]['preds']"), "kept_variable", ".cpu()"),
)


@pytest.fixture
def python(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path))
    yield python
    python.end()


def start(python: Python, program: str, *arguments: str) -> tuple[Child, int]:
    """The resting program, and how much it says that it keeps."""
    child = python.fork(PROGRAMS / f"{program}.py", *arguments)
    return child, int(child.expect("ready"))


def once(python: Python, child: Child, *options: str) -> str:
    variables = {name: python.environment[name] for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    return attach(str(child.pid), "--once", *options, environment={**variables, "COLUMNS": "80"})[1]


def findings_of(python: Python, child: Child, kind: str) -> list[dict]:
    document = json.loads(once(python, child, "--json"))
    return [finding for finding in document["findings"] if finding["kind"] == kind]


@pytest.mark.parametrize("report", REPORTS, ids=[report.program for report in REPORTS])
def test_the_first_lines_answer_the_report_and_the_remedy_works(python: Python, report: Report) -> None:
    child, kept_bytes = start(python, report.program)
    answer = " ".join(line.strip() for line in once(python, child).splitlines()[:3])
    assert re.search(report.says, answer), answer
    place = re.search(rf"{report.program}\.py:([\d, ]+)", answer)
    assert (place is not None) == report.has_line, answer
    if place is not None:
        source = (PROGRAMS / f"{report.program}.py").read_text().splitlines()
        (number,) = [number for number, line in enumerate(source, 1) if line.endswith("# keeps")]
        assert str(number) in re.findall(r"\d+", place[1]), answer
    (finding,) = findings_of(python, child, report.kind)
    assert finding["bytes"] == pytest.approx(kept_bytes, rel=0.01)
    assert report.remedy in finding["remedy"]
    mended, left_bytes = start(python, report.program, "fixed")
    assert left_bytes < LITTLE * kept_bytes
    assert findings_of(python, mended, report.kind) == []
