"""What looks cost and show in real programs: Trainer, Lightning, FSDP2 and others, on fake GPUs.

    pip install -e . --group real && python -m benchmarks.looks [--before COMMIT]

The programs run with the current Python, or with the first interpreter that `GPUTUI_TEST_TORCH` names. Each is watched
for a while by a viewer that presses no key. With `--before` it is then started and watched again with gputui as it was
at that commit, so that the two are compared on the same machine within minutes; every second program begins with the
earlier commit. The figures of the two are separated by a slash, this commit's first.
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

from benchmarks.looks_table import ENOUGH_LOOKS, NOTE, TakenLook, Watch, as_markdown, as_text, figures_of, headings, row
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


def path_of(program: str) -> Path:
    """The script of a program."""
    return FOLDER / "real" / f"{program}.py"


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


def watch(python: str, program: str, root: Path, seconds: float) -> Watch:
    """Start a program with the probe of the gputui in `root`, and watch it with that gputui's viewer."""
    with tempfile.TemporaryDirectory(prefix="gputui-looks-") as folder, (Path(folder) / "output").open("w+") as output:
        own = {**os.environ, "XDG_RUNTIME_DIR": folder}
        probed = {
            **own,
            **fake_cuda(python, Path(folder), gpus=1),
            "PYTHONPATH": str(root / "gputui" / "probe" / "preload"),
            "HF_HUB_OFFLINE": "1",
        }
        command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", str(path_of(program))]
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
    return Watch(watched_s, [TakenLook(**look) for look in looks])


def measure(
    python: str, programs: list[str], roots: list[Path], seconds: float
) -> tuple[dict[str, list[Watch]], list[str]]:
    """The watches of each program, in the order of `roots`, and messages about those that failed."""
    watches, failures = {}, []
    for number, program in enumerate(programs):
        order = roots if number % 2 == 0 else roots[::-1]
        print(f"{program} ...", file=sys.stderr)
        try:
            by_root = {root: watch(python, program, root, seconds) for root in order}
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
    options = parser.parse_args()
    python = torch_pythons()[0]
    check(python, options.programs)
    with checkout(options.before) if options.before else nullcontext() as before:
        roots = [REPOSITORY, before] if before else [REPOSITORY]
        watches, failures = measure(python, options.programs, roots, options.seconds)
    if options.json:
        options.json.write_text(as_json(watches))
    rows = [headings(is_compared=len(roots) > 1), *(row(program, ones) for program, ones in watches.items())]
    print(as_markdown(rows) if options.markdown else as_text(rows))
    print(f"\n{NOTE}")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
