"""How often the model of the allocator gives the bytes that PyTorch really reserves.

    python -m benchmarks.whatif [--programs 300] [--python other/bin/python]

Random programs and trainings are recorded under the default settings, replayed under each of the others, and really
run under them, on fake GPUs. Prints, for each setting, how many are equal to the byte. Then a step that was recorded in
each training is replayed with other batches, and the trainings take steps on tensors without data, beside real ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from gputui.explain.whatif.ahead import recorded_ahead
from gputui.explain.whatif.allocator.settings import DEFAULTS, Device, with_settings
from gputui.explain.whatif.cases import AS_WRITTEN, Case, answer
from gputui.explain.whatif.replay.recorded import Recorded, recorded_from
from gputui.explain.whatif.replay.replay import Outcome, replay_in_slices
from gputui.explain.whatif.trace.operations import operations_of
from gputui.sources.files.torch_snapshot.segments import settings_of as snapshot_settings
from gputui.sources.probe.listing import attach
from gputui.sources.rehearsal import rehearsal_of
from gputui.units import format_bytes
from tests import torches
from tests.whatif.conftest import PROGRAMS, recorded_in, settings_of, trace_of
from tests.whatif.test_random_requests import CONTEXT_BYTES, DEVICE_BYTES, WHOLE_DEVICE

SETTINGS = (
    ("", 1.0),
    ("expandable_segments:True", 1.0),
    ("max_split_size_mb:64", 1.0),
    ("roundup_power2_divisions:[64:8,256:4,>:1]", 1.0),
    ("expandable_segments:True,max_split_size_mb:64", 1.0),
    ("garbage_collection_threshold:0.3", 0.1),
)
"""Settings, and the memory fraction under which the random programs run: garbage is collected only near a limit."""
MODELS = ("gpt", "lora", "resnet", "unet")
TRAININGS = (*MODELS, "gpt-checkpointed", "gpt-mixed", "gpt kept-gradients")
SCALED = (*MODELS, "gpt-checkpointed", "gpt-mixed")
"""Those replayed with other batches."""
BATCH = "4"
BATCHES = (6, 8, 16, 32)
PROGRAMS_A_RUN = 8
WORKSPACES = {"FAKEGPU_CUBLAS_HANDLES": "1"}
"""Each thread has a handle of cuBLAS, and so a workspace, as on a GPU."""
FIGURES = ("peak_reserved_bytes", "peak_allocated_bytes", "reserved_bytes")

Run = Callable[..., dict[str, Any]]


@dataclass
class Tally:
    """How many of the compared were equal, and which were not; in `broken` ones PyTorch itself failed."""

    compared: int = 0
    broken: int = 0
    different: list[str] = field(default_factory=list)

    def add(self, name: str, outcome: Outcome, measured: dict[str, Any]) -> None:
        """Compare one replay with what was measured."""
        self.compared += 1
        wrong = [figure for figure in FIGURES if getattr(outcome, figure) != measured[figure]]
        if wrong:
            self.different.append(f"{name}: {', '.join(wrong)}")

    @property
    def words(self) -> str:
        """As two cells of a table."""
        equal = self.compared - len(self.different)
        share = f"{equal / self.compared:.1%}" if self.compared else "-"
        return f"{equal} of {self.compared} ({share})" + (f"; PyTorch fails in {self.broken}" if self.broken else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, and print a table."""
    parser = argparse.ArgumentParser(description="How often a replay gives the bytes of a real run.")
    parser.add_argument("--programs", type=int, default=300, help="how many random programs")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with a CUDA build of PyTorch")
    parsed = parser.parse_args(arguments)
    if not torches.has_cuda_build(parsed.python):
        print(f"{parsed.python} has no CUDA build of PyTorch.")
        return 1
    run = partial(_run, parsed.python)
    programs = _random_programs(run, parsed.programs)
    trainings = _trainings(run)
    print("| settings | random programs that are equal | trainings |\n| --- | ---: | ---: |")
    for settings, _ in SETTINGS:
        print(f"| {settings or 'as recorded'} | {programs[settings].words} | {trainings[settings].words} |")
    _print_batches(run, parsed.python)
    _print_ahead(run, parsed.python)
    for settings, tally in (*programs.items(), *trainings.items()):
        for line in tally.different:
            print(f"{settings or 'as recorded'}: {line}")
    return 0


def _print_batches(run: Run, python: str) -> None:
    """How far the peaks of other batches are from real ones, from a step that gputui recorded in a training."""
    print(f"\n| model | {' | '.join(map(str, BATCHES))} |\n| --- |{' ---: |' * len(BATCHES)}")
    for model in SCALED:
        recorded = _recorded_step(python, model)
        differences = []
        for batch in BATCHES:
            scaled = answer(recorded, Case("batch", batch=(int(BATCH), batch))).outcome.peak_reserved_bytes
            real = run("training_steps.py", model, batch, "none")["peak_reserved_bytes"]
            differences.append(f"{scaled / real - 1:+.2%}")
        print(f"| {model} | {' | '.join(differences)} |")


def _recorded_step(python: str, model: str) -> Recorded:
    """A step of a training that goes on, recorded as `gputui step` does."""
    command = [python, "-W", "ignore", str(PROGRAMS / "training_steps.py"), model, BATCH, "none", "endless"]
    with TemporaryDirectory() as folder:
        environment = {**os.environ, **torches.fake_cuda(python, Path(folder)), "PYTHONPATH": str(torches.REPOSITORY)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has taken its first steps
            with attach(process.pid) as client:
                client.look()
                recording, result = client.record_step()
        finally:
            process.kill()
            process.wait()
    if recording is None:
        sys.exit(f"No step of {model} was recorded: {result.reason}")
    return recorded_from(recording.traces, recording.look)


def _print_ahead(run: Run, python: str) -> None:
    """The peaks of steps on tensors without data, beside those of real ones."""
    print("\n| model | without running | real | difference |\n| --- | ---: | ---: | ---: |")
    reports = torches.run_program(
        python, PROGRAMS / "ahead.py", *MODELS, environment=WORKSPACES, modules=_imported(python)
    )
    for model in MODELS:
        rehearsed = recorded_ahead(rehearsal_of(reports[model], model, python), DEFAULTS, Device())
        ahead = answer(rehearsed, AS_WRITTEN).outcome.peak_reserved_bytes
        real = run("training_steps.py", model, BATCH, "none", variables=WORKSPACES)["peak_reserved_bytes"]
        print(f"| {model} | {format_bytes(ahead)} | {format_bytes(real)} | {ahead / real - 1:+.1%} |")


def _run(
    python: str, name: str, *arguments: object, settings: str = "", variables: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    words = [str(argument) for argument in arguments]
    with TemporaryDirectory() as folder:  # new fake GPUs for each run
        environment = torches.fake_cuda(python, Path(folder)) | {"PYTORCH_CUDA_ALLOC_CONF": settings} | variables
        return torches.run_program(python, PROGRAMS / name, *words, environment=environment, modules=_imported(python))


@lru_cache
def _imported(python: str) -> tuple[str, ...]:
    """What programs are forked with: nothing where the Python is too old for the server that forks them."""
    code = "import sys; sys.exit(sys.version_info < (3, 9))"
    return ("torch",) if subprocess.run([python, "-c", code], check=False).returncode == 0 else ()


def _random_programs(run: Run, count: int) -> dict[str, Tally]:
    tallies = {settings: Tally() for settings, _ in SETTINGS}
    for first in range(1, count + 1, PROGRAMS_A_RUN):
        size = min(PROGRAMS_A_RUN, count + 1 - first)
        report = run("random_requests.py", first, size, 1, "trace")
        for settings, fraction in SETTINGS:
            measured = _measured(run, range(first, first + size), fraction, settings)
            device = Device(DEVICE_BYTES - CONTEXT_BYTES, DEVICE_BYTES, fraction)
            for trace, real in zip(report["programs"], measured, strict=True):
                if "broken" in real:
                    tallies[settings].broken += 1
                    continue
                operations = operations_of(trace_of(trace), ())
                asked = with_settings(settings_of(report["settings"], trace, WHOLE_DEVICE), settings)
                read = snapshot_settings({"allocator_settings": real["settings"]}, ()).roundup_divisions
                *_, outcome = replay_in_slices(operations, replace(asked, roundup_divisions=read), device)
                tallies[settings].add(f"seed {trace['seed']}", outcome, real)
    return tallies


def _measured(run: Run, seeds: range, fraction: float, settings: str) -> list[dict[str, Any]]:
    """The reports of real runs; after one in which PyTorch breaks, a new process goes on."""
    reports: list[dict[str, Any]] = []
    while len(reports) < len(seeds):
        left = seeds[len(reports) :]
        report = run("random_requests.py", left[0], len(left), fraction, settings=settings)
        reports += [program | {"settings": report["settings"]} for program in report["programs"]]
    return reports


def _trainings(run: Run) -> dict[str, Tally]:
    tallies = {settings: Tally() for settings, _ in SETTINGS}
    for model in TRAININGS:
        name, *how = model.split()
        recorded = recorded_in(run("training_steps.py", name, BATCH, "whole", "trace", *how))
        for settings, _ in SETTINGS:
            measured = run("training_steps.py", name, BATCH, "none", *how, settings=settings)
            tallies[settings].add(model, answer(recorded, Case(settings, settings)).outcome, measured)
    return tallies


if __name__ == "__main__":
    sys.exit(main())
