"""Looks into programs of other people's frameworks: the same output, exit status and waits as without gputui?

    python -m benchmarks.frameworks [--python PYTHON] [--looks 300] [--seconds 12] [--programs 'NAME;...'] [--markdown]

Each program runs with the Python given, which needs PyTorch with CUDA and the packages in `PROGRAMS`, on fake GPUs:
once without gputui, once with the probe put in while it runs, and once started by `gputui run`. It checks its own
results. A viewer watches it as the attach screens do, in turns with no viewer, and then asks for looks. A program whose
packages are missing is left out with a sentence. It exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.foreign_programs import PROGRAMS, PUT_IN, RUN, WITHIN_S, FailedError, Program, Run, Running
from benchmarks.looks_table import as_markdown, as_text
from gputui.errors import GputuiError
from gputui.model.attached.target import Look
from gputui.sources.probe import listing, loading
from gputui.sources.probe.client import ProbeClient
from tests.torches import has_cuda_build, torch_pythons

TURNS = 3
"""How often watching and leaving alone take turns."""
ASKED = ("walk", "walk", "scan")


def run(python: str, program: Program, way: str, looks: int, seconds: float) -> Run:
    """Run a program, and look into it if there is a way."""
    result = Run()
    with tempfile.TemporaryDirectory(prefix="gputui-frameworks-") as name:
        os.environ["XDG_RUNTIME_DIR"] = name
        try:
            running = Running(python, program, Path(name), way)
        except FailedError as error:
            return Run(errors=str(error))
        try:
            with running.with_another_beside():
                time.sleep(seconds / TURNS)
                if way:
                    look_into(running, result, looks, seconds)
        except (FailedError, GputuiError) as error:
            result.problems[str(error)] += 1
        finally:
            running.end(result)
    return result


def look_into(running: Running, result: Run, looks: int, seconds: float) -> None:
    """Watch as the attach screens do, in turns with no viewer, and then ask for looks."""
    try:
        listing.attach(running.pid).close()
    except listing.CannotAttachError:
        loading.put_probe_in(running.pid, lambda _sentence: None, WITHIN_S)
    for _ in range(TURNS):
        running.phase("alone")
        time.sleep(seconds / TURNS)
        running.phase("watched")
        with listing.attach(running.pid) as client:
            watch(client, result, seconds / TURNS)
    running.phase("asked")
    with listing.attach(running.pid) as client:
        for number in range(looks):
            count(client.look(ASKED[number % len(ASKED)], wait_s=WITHIN_S), result, "asked")
    running.phase("ending")


def watch(client: ProbeClient, result: Run, seconds: float) -> None:
    """Take the looks that come by themselves."""
    client.subscribe(1.0)
    client.ask_look("walk", when="changed")
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0:
        message = client.receive(left_s)
        if isinstance(message, Look):
            count(message, result, "watched")
            client.ask_look("walk", when="changed")


def count(look: Look, result: Run, phase: str) -> None:
    """Note what a look has found."""
    result.stops_ms[phase] = max(look.cost.pause_ms, result.stops_ms.get(phase, 0.0))
    result.looks += 1
    result.whole_looks += look.inventory is not None
    result.problems.update(problem.text for problem in look.problems)


HEADINGS = (
    "program",
    "way",
    "looks",
    "with tensors",
    "output and status",
    "longest wait",
    "watched (stop)",
    "on request (stop)",
)


def rows(python: str, names: list[str], looks: int, seconds: float) -> Iterator[tuple[list[str], list[str]]]:
    """For each program and way the cells of a row, and sentences about it."""
    for name in names:
        program = PROGRAMS[name]
        if missing := program.lacking(python):
            print(f"{name} is left out: {python} has no {', '.join(missing)}.", file=sys.stderr)
            continue
        without = run(python, program, "", 0, seconds)
        if without.status != program.status or "wrong 0\n" not in without.output:
            yield [name, "without", "", "", "fails", "", "", ""], [f"{name} fails without gputui: {without}"]
            continue
        for way in (PUT_IN, RUN):
            print(f"{name}, {way} ...", file=sys.stderr)
            with_looks = run(python, program, way, looks // 2, seconds)
            differences = with_looks.differs_from(without)
            seen = str(with_looks.looks), str(with_looks.whole_looks), "different" if differences else "same"
            told = [*differences, *_told(with_looks, looks // 2)]
            yield [name, way, *seen, *_waits(with_looks)], [f"{name}, {way}: {text}" for text in told]


def _waits(result: Run) -> Iterator[str]:
    for phase in ("alone", "watched", "asked"):
        longest_ms = result.longest_ms(phase)
        stop = f" ({result.stops_ms[phase]:.0f})" if phase in result.stops_ms else ""
        yield "-" if longest_ms is None else f"{longest_ms:.0f} ms{stop}"


def _told(result: Run, looks: int) -> Iterator[str]:
    if result.looks < looks:
        yield f"only {result.looks} looks"
    yield from (f"{number} times: {text}" for text, number in result.problems.items())


def main() -> int:
    """Look into all programs, and print the table and what was remarkable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=torch_pythons()[0])
    parser.add_argument("--looks", type=int, default=300, help="into each program, half of them in each way")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each is watched, and left alone")
    parser.add_argument("--programs", type=lambda text: text.split(";"), default=list(PROGRAMS), metavar="NAME;...")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    if unknown := [name for name in options.programs if name not in PROGRAMS]:
        parser.error(f"no such programs: {'; '.join(unknown)}. There are: {'; '.join(PROGRAMS)}")
    if not has_cuda_build(options.python):
        sys.exit(f"{options.python} has a CPU build of PyTorch; the programs need a CUDA build.")
    table, remarks = [list(HEADINGS)], []
    for cells, told in rows(options.python, options.programs, options.looks, options.seconds):
        table.append(cells)
        remarks += told
        print(*cells, *told, sep=" | ", file=sys.stderr)
    print(as_markdown(table) if options.markdown else as_text(table))
    print(*remarks, sep="\n")
    return int(any(cells[4] != "same" for cells in table[1:]))


if __name__ == "__main__":
    sys.exit(main())
