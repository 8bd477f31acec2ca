"""What looks cost and show in real programs: Trainer, Lightning, FSDP2 and others, on fake GPUs.

    pip install -e . --group real && python -m benchmarks.looks [--before COMMIT] [--slower 3]
    python -m benchmarks.looks --drawn 20 [--seed 1]

The programs run with the current Python, or with the first interpreter that `GPUTUI_TEST_TORCH` names. Each is watched
for a while by a viewer that presses no key. With `--before` it is then started and watched again with gputui as it was
at that commit, so that the two are compared on the same machine within minutes; every second program begins with the
earlier commit. The figures of the two are separated by a slash, this commit's first.

With `--drawn`, so many programs that `programs/drawn.py` draws are watched instead, and a last row has the worst figure
of each column. With `--slower`, the probe has as little time as on a machine that is so many times slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.looks_table import (
    ENOUGH_LOOKS,
    NOTE,
    TakenLook,
    Watch,
    as_markdown,
    as_text,
    figures_of,
    headings,
    row,
    worst_of,
)
from benchmarks.machine import this_machine
from tests.torches import REPOSITORY, fake_cuda, has_cuda_build, lacking_packages, torch_pythons

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = {
    "trainer": ("transformers", "accelerate"),
    "trainer_checkpointing": ("transformers", "accelerate"),
    "accelerate_loop": ("transformers", "accelerate"),
    "lightning_fit": ("transformers", "lightning"),
    "lora": ("transformers", "peft"),
    "unet": ("diffusers",),
    "generation": ("transformers",),
    "fsdp2": (),
    "llama": ("transformers",),
    "kept_losses": (),
    "training_thread": (),
}
"""The programs in `programs/real`, each with the packages that it needs beside PyTorch."""
GROUP = "real"
"""The dependency group in pyproject.toml that has these packages."""
LOOKS_BY_KEY = 10


class FailedError(Exception):
    """A program that ended or could not be watched; the message has the end of its output."""


DRAWN = "drawn "
"""The name of a drawn program begins with this, and ends with its seed."""
WORST = "the worst"


def path_of(program: str) -> Path:
    """The script of a program."""
    return FOLDER / "real" / f"{program}.py"


def command_of(program: str) -> list[str]:
    """The script of a program, with its arguments."""
    if program.startswith(DRAWN):
        return [str(FOLDER / "drawn.py"), program.removeprefix(DRAWN)]
    return [str(path_of(program))]


def preload(root: Path, slower: float) -> dict[str, str]:
    """The variables that load the probe of the gputui in `root`, on a machine that is so many times slower."""
    probe = str(root / "gputui" / "probe" / "preload")
    if slower == 1:
        return {"PYTHONPATH": probe}
    return {"PYTHONPATH": f"{FOLDER / 'slower'}{os.pathsep}{probe}", "GPUTUI_BENCHMARK_SLOWER": str(slower)}


def check(python: str, programs: list[str]) -> None:
    """End with a sentence if a program cannot run with this interpreter."""
    install = f"{python} -m pip install --group {GROUP}"
    if unknown := [name for name in programs if name not in PROGRAMS]:
        sys.exit(f"There is no program {', '.join(unknown)}: choose from {', '.join(PROGRAMS)}.")
    if missing := lacking_packages(python, tuple(sorted({"torch"}.union(*(PROGRAMS[name] for name in programs))))):
        needing = [name for name in programs if {"torch", *PROGRAMS[name]}.intersection(missing)]
        sys.exit(f"{', '.join(missing)} must be installed to run {', '.join(needing)}: {install}")
    if not has_cuda_build(python):
        sys.exit(f"{python} has a CPU build of PyTorch; the programs need a CUDA build: {install}")


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A temporary working tree of a commit."""
    git = ["git", "-C", str(REPOSITORY)]
    if subprocess.run(
        [*git, "cat-file", "-e", f"{commit}^{{commit}}"], check=False, stderr=subprocess.DEVNULL
    ).returncode:
        sys.exit(f"There is no commit {commit} in {REPOSITORY}: fetch it, or name another.")
    with tempfile.TemporaryDirectory(prefix="gputui-before-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def watch(python: str, program: str, root: Path, seconds: float, slower: float) -> Watch:
    """Start a program with the probe of the gputui in `root`, and watch it with that gputui's viewer."""
    with tempfile.TemporaryDirectory(prefix="gputui-looks-") as folder, (Path(folder) / "output").open("w+") as output:
        own = {**os.environ, "XDG_RUNTIME_DIR": folder}
        probed = {
            **own,
            **fake_cuda(python, Path(folder), gpus=1),
            **preload(root, slower),
            "HF_HUB_OFFLINE": "1",
        }
        command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", *command_of(program)]
        process = subprocess.Popen(command, env=probed, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            arguments = [str(process.pid), str(seconds), str(LOOKS_BY_KEY), str(ENOUGH_LOOKS)]
            viewer = subprocess.run(
                [sys.executable, str(FOLDER / "viewer.py"), *arguments],
                env={**own, "PYTHONPATH": str(root)},
                stdout=subprocess.PIPE,
                check=False,
                text=True,
            )
        finally:
            has_ended = process.poll() is not None
            process.kill()
            process.wait()
        if viewer.returncode or has_ended:
            output.seek(0)
            state = f"ended with {process.returncode}" if has_ended else "could not be watched"
            cause = f"{program} {state} with the gputui in {root}. The end of its output:\n{output.read()[-2000:]}"
            raise FailedError(cause)
    *looks, watched_s = map(json.loads, viewer.stdout.splitlines())
    for look in looks:
        look["pause_ms"] *= slower
    return Watch(watched_s, [TakenLook(**look) for look in looks])


def measure(
    python: str, programs: list[str], roots: list[Path], seconds: float, slower: float
) -> tuple[dict[str, list[Watch]], list[str]]:
    """The watches of each program, in the order of `roots`, and messages about those that failed."""
    watches, failures = {}, []
    for number, program in enumerate(programs):
        order = roots if number % 2 == 0 else roots[::-1]
        print(f"{program} ...", file=sys.stderr)
        try:
            by_root = {root: watch(python, program, root, seconds, slower) for root in order}
        except FailedError as error:
            failures.append(str(error))
        else:
            watches[program] = [by_root[root] for root in roots]
    return watches, failures


def as_json(watches: dict[str, list[Watch]]) -> str:
    """All looks and figures, by program."""
    document = {
        program: [{"figures": asdict(figures_of(one)), **asdict(one)} for one in ones]
        for program, ones in watches.items()
    }
    return json.dumps(document, indent=1)


def main() -> None:
    """Watch the programs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="an earlier commit to compare with")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each program is watched without a key")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=list(PROGRAMS), metavar="NAME,...")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all looks and figures into FILE")
    parser.add_argument(
        "--kernel-us", type=float, default=0.0, metavar="US", help="a time for each kernel: 150 makes the GPU the bound"
    )
    parser.add_argument("--slower", type=float, default=1.0, metavar="N", help="a machine that is N times slower")
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="watch so many drawn programs instead")
    parser.add_argument("--seed", type=int, default=1, help="of the first drawn program")
    options = parser.parse_args()
    os.environ["FAKEGPU_KERNEL_US"] = str(options.kernel_us)
    python, programs = torch_pythons()[0], options.programs
    if options.drawn:
        programs = [f"{DRAWN}{seed}" for seed in range(options.seed, options.seed + options.drawn)]
    check(python, [] if options.drawn else programs)
    with checkout(options.before) if options.before else nullcontext() as before:
        roots = [REPOSITORY, before] if before else [REPOSITORY]
        watches, failures = measure(python, programs, roots, options.seconds, options.slower)
    if options.json:
        options.json.write_text(as_json(watches))
    figures = {program: [figures_of(one) for one in ones] for program, ones in watches.items()}
    if options.drawn and figures:
        figures[WORST] = [worst_of(of_root) for of_root in zip(*figures.values(), strict=True)]
    rows = [headings(is_compared=len(roots) > 1), *(row(program, ones) for program, ones in figures.items())]
    print(as_markdown(rows) if options.markdown else as_text(rows))
    print(f"\n{NOTE}\n{this_machine()}" + f" As if it were {options.slower:g} times slower." * (options.slower != 1))
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
