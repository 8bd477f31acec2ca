"""The allocator's trace in a black box: by `gputui run --memory-history`, or the program itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputui.commands.forecast import whatif
from gputui.commands.reach.run import PRELOAD
from gputui.explain.whatif.advice import DEFAULT_EXPANDABLE
from gputui.explain.whatif.cases import Known, answer, unchanged
from gputui.explain.whatif.replay.recorded import recorded_of
from gputui.model.attached.target import ActionName, Recorder
from gputui.model.attached.trace import OUT_OF_MEMORY
from gputui.units import MIB
from tests.attach.children import Child, Python
from tests.blackbox.conftest import PROGRAMS, Failed, ended
from tests.torches import REPOSITORY

RUN = [sys.executable, "-m", "gputui", "run", "--black-box", "kept"]
STUCK = str(PROGRAMS / "stuck.py")
LINE = next(number for number, line in enumerate(Path(STUCK).read_text().splitlines(), 1) if "# fails here" in line)


def fail(python: Python, *words: str, history: bool = True) -> Failed:
    """The program of this file, with what `gputui run` sets."""
    return ended(forked(python, *words, history=history), python.folder / "kept")


def forked(python: Python, *words: str, history: bool = True) -> Child:
    """The program of this file, while it runs."""
    variables = {"PYTHONPATH": f"{PRELOAD}:{REPOSITORY}", "GPUTUI_BLACK_BOX": str(python.folder / "kept")}
    if history:
        variables["GPUTUI_MEMORY_HISTORY"] = "1"
    return python.fork(Path(STUCK), *words, **variables)


def fail_in_a_run(python: Python, *words: str) -> Failed:
    """The program of this file, under `gputui run --memory-history`."""
    return ended(python.run([*RUN, "--memory-history", python.path, STUCK, *words]), python.folder / "kept")


@pytest.mark.every_torch
def test_a_setting_that_would_have_fitted_is_found_in_the_black_box(
    cuda_python: Python, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = fail_in_a_run(cuda_python)
    assert failed.status == 1
    (trace,) = failed.box.moment.traces
    assert trace.actions.rstrip(bytes([7]))[-1] == OUT_OF_MEMORY
    at = trace.actions.rindex(OUT_OF_MEMORY)
    assert trace.sizes_bytes[at] == failed.box.failure.requested_bytes == 1300 * MIB
    recorded = recorded_of(failed.box.moment)
    assert recorded.is_whole
    baseline = answer(recorded, unchanged(recorded))
    assert (baseline.known, baseline.outcome.is_out_of_memory) == (Known.EXACT, True)
    expandable = answer(recorded, DEFAULT_EXPANDABLE)
    assert (expandable.known, expandable.outcome.is_out_of_memory) == (Known.EXACT, False)
    assert whatif.run([str(failed.boxes[0])]) == 0
    assert capsys.readouterr().out.startswith(
        "expandable_segments:True would have made room for the request that failed (exact).\n"
    )
    again = cuda_python.fork(Path(STUCK), GPUTUI_PROBE="0", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert (again.expect("fits"), again.ended()) == ("", 0)


@pytest.mark.every_torch
def test_a_history_of_the_program_is_kept_with_it(cuda_python: Python) -> None:
    """With the stacks of C++, which PyTorch records by default: the map then takes longer than all the rest."""
    failed = fail(cuda_python, "own", history=False)
    box = failed.box
    (trace,) = box.moment.traces
    assert trace.empty_cache_calls is None
    assert trace.actions.count(OUT_OF_MEMORY) == 1
    recorded = recorded_of(box.moment)
    assert recorded.operations.earlier == 1  # `first` came before the history
    assert not answer(recorded, DEFAULT_EXPANDABLE).outcome.is_out_of_memory
    (device,) = box.moment.used_devices
    assert device.layout is not None
    assert any(name.startswith("kept") for group in device.layout.groups for name in group.names)


def test_without_a_history_there_is_no_trace(cuda_python: Python) -> None:
    assert fail(cuda_python, history=False).box.moment.traces == ()


@pytest.mark.every_torch
@pytest.mark.parametrize("when", ["", "early"])
def test_the_programs_own_history_takes_the_place_of_ours(cuda_python: Python, when: str) -> None:
    box = (fail_in_a_run if when else fail)(cuda_python, "short", when).box
    (trace,) = box.moment.traces
    assert len(trace) <= 30


@pytest.mark.every_torch
def test_viewers_leave_the_history_of_a_black_box_on(cuda_python: Python) -> None:
    child = forked(cuda_python, "", "wait")
    child.expect("waiting")
    with child.attach() as client:
        assert client.statistics().history is Recorder.PROBE
        assert client.run_action(ActionName.HISTORY_OFF).reason == (
            "The program was started with --memory-history, so its history stays on."
        )
    (cuda_python.folder / "go on").touch()
    failed = ended(child, cuda_python.folder / "kept")
    (trace,) = failed.box.moment.traces
    stack = trace.stack_table[trace.stacks[trace.actions.rindex(OUT_OF_MEMORY)]]
    assert LINE in {site.line for site in stack}
    assert recorded_of(failed.box.moment).is_whole
