"""How near the peaks that `gputui check --run` tells are to those of real runs.

    pip install -e . --group real && python -m benchmarks.check [--python other/bin/python] [--programs 'Trainer;LoRA']

Each script is rehearsed, and really run on fake GPUs, up to the third step of its optimizer. Ranks of
DistributedDataParallel are all run, with gloo in the place of NCCL; of FSDP2 and tensor parallel one is run, whose
process group moves nothing. Prints a table. A script whose packages are missing is left out with a sentence. It exits
with 1 where a peak of reserved or allocated memory is more than 5% off.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.foreign_programs import free_port
from benchmarks.looks import PROGRAMS, path_of
from tests.torches import REPOSITORY, fake_cuda, has_cuda_build, lacking_packages

MEASURED = Path(__file__).parent / "programs" / "measured.py"
FIGURES = ("peak_reserved_bytes", "peak_allocated_bytes")
TOLERANCE = 0.05
MIB = 1 << 20
WITHIN_S, GRACE_S = 1800.0, 60.0


PACKAGES = {**PROGRAMS, "ddp": (), "pipeline": (), "tensor_parallel": ("transformers",)}


class FailedError(Exception):
    """A run without figures; the message has the end of what it wrote."""


@dataclass(frozen=True, slots=True)
class Case:
    """A script with its arguments, as one of so many ranks."""

    script: str
    arguments: tuple[str, ...] = ()
    ranks: int = 1
    rank: int = 0
    """The one that is rehearsed and, where not all are, run."""
    is_joined: bool = False
    """Whether all ranks are really run."""

    def lacking(self, python: str) -> tuple[str, ...]:
        """The packages that an interpreter has not."""
        return lacking_packages(python, PACKAGES[self.script])

    @property
    def words(self) -> list[str]:
        """The script and its arguments."""
        return [str(path_of(self.script)), *self.arguments]


CASES = {
    "plain loop (kept_losses)": Case("kept_losses"),
    "in a thread (training_thread)": Case("training_thread"),
    "generation, 16 texts of 640 tokens": Case("generation", ("1",)),
    "Llama 7B in bf16, made on meta": Case("llama"),
    "LoRA (peft)": Case("lora"),
    "UNet with EMA (diffusers)": Case("unet"),
    "Trainer": Case("trainer"),
    "Trainer, checkpointing, accumulation, bf16": Case("trainer_checkpointing"),
    "accelerate, bf16": Case("accelerate_loop"),
    "Lightning": Case("lightning_fit"),
    **{f"DistributedDataParallel, {ranks} ranks": Case("ddp", ranks=ranks, is_joined=True) for ranks in (2, 4, 8)},
    **{f"FSDP2, mixed precision, {ranks} ranks": Case("fsdp2", ranks=ranks) for ranks in (2, 4, 8)},
    **{f"FSDP2, 4 ranks, {what}": Case("fsdp2", (what,), ranks=4) for what in ("kept", "offloaded")},
    **{f"tensor parallel (DTensor), {ranks} ranks": Case("tensor_parallel", ranks=ranks) for ranks in (2, 4, 8)},
    **{f"stage {rank + 1} of a pipeline of 2": Case("pipeline", ranks=2, rank=rank) for rank in (0, 1)},
}


def measured(python: str, case: Case, folder: Path) -> dict[str, int]:
    """The peaks of a real run of the rank."""
    variables = {**os.environ, **fake_cuda(python, folder, gpus=case.ranks), "FAKEGPU_CUBLAS_HANDLES": "1"}
    variables |= {"GPUTUI_MEASURED": str(folder / "peaks"), "HF_HUB_OFFLINE": "1"}
    command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", str(MEASURED), *case.words]
    running = [
        subprocess.Popen(command, env=variables | own, cwd=folder, stdout=log, stderr=log)
        for own, log in _ranks(case, folder)
    ]
    try:
        for process in running:
            process.wait(WITHIN_S)
    except subprocess.TimeoutExpired:
        for process in running:
            process.kill()
        message = f"it took more than {WITHIN_S:.0f} s"
        raise FailedError(message) from None
    if not (folder / "peaks").exists():
        raise FailedError((folder / "output").read_text()[-3000:])
    peaks: dict[str, int] = json.loads((folder / "peaks").read_text())
    return peaks


def _ranks(case: Case, folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """For each process that runs its variables, and a file for what it writes."""
    port = free_port()
    with (folder / "output").open("a") as log:
        for rank in range(case.ranks) if case.is_joined else (case.rank,):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(case.ranks)} if case.ranks > 1 else {}
            if case.is_joined:
                own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "FAKEGPU_KEPT_COPIES": "1"}
            if rank != case.rank:
                own["GPUTUI_MEASURED"] = str(folder / f"peaks of {rank}")
            yield own, log.fileno()


def rehearsed(python: str, case: Case, folder: Path) -> dict[str, int]:
    """The peaks that gputui tells."""
    words = ["--json", "--within", f"{WITHIN_S - GRACE_S:.0f}s", "--device", "H100", "--python", python]
    words += ["--world-size", str(case.ranks), "--rank", str(case.rank)] if case.ranks > 1 else []
    words += ["--run", *case.words]
    told = subprocess.run(
        [sys.executable, "-m", "gputui", "check", *words],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    targets = json.loads(told.stdout.splitlines()[-1])["targets"] if told.stdout else []
    if not targets:
        raise FailedError(told.stderr[-3000:])
    return {figure: targets[0][figure] for figure in FIGURES}


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse, run, and print a table."""
    parser = argparse.ArgumentParser(description="How near the peaks of gputui check are to real ones.")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with a CUDA build of PyTorch")
    parser.add_argument("--programs", default="", help="words of the names in the table, with semicolons between them")
    parsed = parser.parse_args(arguments)
    if not has_cuda_build(parsed.python):
        print(f"{parsed.python} has no CUDA build of PyTorch.")
        return 1
    asked = parsed.programs.split(";")
    is_near = True
    print("| script | reserved, rehearsed | really | | allocated, rehearsed | really | |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, case in CASES.items():
        if not any(word in name for word in asked):
            continue
        if missing := case.lacking(parsed.python):
            print(f"{name} is left out: {parsed.python} has no {', '.join(missing)}.", file=sys.stderr)
            continue
        is_near &= _print_row(parsed.python, name, case)
    return 0 if is_near else 1


def _print_row(python: str, name: str, case: Case) -> bool:
    """Whether both peaks are near."""
    peaks = []
    for tell in (rehearsed, measured):
        with TemporaryDirectory(prefix="gputui-check-") as folder:
            try:
                peaks.append(tell(python, case, Path(folder)))
            except FailedError as error:
                print(f"{name}: {tell.__name__}: {error}", file=sys.stderr)
                return False
    told, real = peaks
    off = {figure: told[figure] / real[figure] - 1 for figure in FIGURES}
    cells = [f"{told[one] / MIB:,.0f} | {real[one] / MIB:,.0f} | {off[one]:+.1%}" for one in FIGURES]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return all(abs(one) <= TOLERANCE for one in off.values())


if __name__ == "__main__":
    sys.exit(main())
