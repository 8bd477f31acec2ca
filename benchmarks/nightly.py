"""The tests marked `long` or `night`, with counts for a whole night: for leaks and rare states that others miss.

    [GPUTUI_TEST_TORCH=one/bin/python:other/bin/python]
        python -m benchmarks.nightly [--scale 40] [--workers 1] [tests/probe tests/faults/test_faults.py ...]

With them run those for packages that an interpreter has (`packages`), such as vLLM, which CI leaves out.
It runs them with each interpreter, one file of tests after the other, writes the results to benchmarks/NIGHTLY.md
after each file, with those that still wait, and exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree as ET

from gputui import __version__
from tests.torches import REPOSITORY, torch_pythons

REPORT = Path(__file__).parent / "NIGHTLY.md"
VERSION = (
    "import importlib.metadata as m, sys; print('PyTorch', m.version('torch'), 'on Python', sys.version.split()[0])"
)


NUMBER = re.compile(r"\d+")
MARKS = "long or night or packages"


@dataclass(frozen=True, slots=True, order=True)
class Result:
    """The result of one test with one interpreter; `count` is text such as "20000 looks"."""

    name: str
    count: str
    outcome: str
    worker_s: float


@dataclass(frozen=True, slots=True)
class Night:
    """An interpreter's night: `version` is text such as "PyTorch 2.11.0 on Python 3.11.7"."""

    python: str
    version: str
    waiting: list[str]
    """Files of tests that have not run yet."""
    results: list[Result] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The interpreter's part of the report."""
        passed = sum(test.outcome == "passed" for test in self.results)
        yield f"## {self.version}\n"
        worker_s = sum(test.worker_s for test in self.results)
        yield f"{passed} of {len(self.results)} passed, in {worker_s:.0f} s of one worker.\n"
        if self.waiting:
            yield f"Not run: {', '.join(self.waiting)}.\n"
        yield "| test | cases | in all | s |\n| --- | ---: | ---: | ---: |"
        for name, tests in groupby(sorted(self.results), lambda test: test.name.partition("[")[0]):
            cases = list(tests)
            worker_s = sum(test.worker_s for test in cases)
            yield f"| {name} | {len(cases)} | {_in_all([test.count for test in cases])} | {worker_s:.0f} |"
        yield from (f"\n{test.outcome}: {test.name}" for test in self.results if test.outcome != "passed")
        yield ""


def _in_all(counts: list[str]) -> str:
    """The sums of texts such as "40 of 261 calls"; "" where they differ in more than their numbers."""
    if len({NUMBER.sub("#", count) for count in counts}) != 1:
        return ""
    sums = map(sum, zip(*(map(int, NUMBER.findall(count)) for count in counts), strict=True))
    return NUMBER.sub(lambda _: f"{next(sums):,}", counts[0])


def run_pytest(python: str, scale: int, *words: str, stdout: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the marked tests that pytest's `words` choose, with an interpreter's PyTorch."""
    variables = {**os.environ, "GPUTUI_TEST_TORCH": python, "GPUTUI_TEST_SCALE": str(scale)}
    command = [sys.executable, "-m", "pytest", "-m", MARKS, *words]
    return subprocess.run(command, cwd=REPOSITORY, env=variables, check=False, text=True, stdout=stdout)


def files_of_long_tests(python: str, scale: int, paths: list[str]) -> list[str]:
    """The files that have marked tests, in the order of `paths`."""
    listed = run_pytest(python, scale, "--collect-only", "-q", *paths, stdout=subprocess.PIPE).stdout.splitlines()
    return list(dict.fromkeys(line.partition("::")[0] for line in listed if line.startswith("tests/")))


def run_long_tests(python: str, scale: int, workers: int, file: str) -> list[Result]:
    """Run a file's marked tests, showing pytest's output, and return their results."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        words = ["-n", str(workers), f"--junit-xml={report.name}", "-o", "junit_duration_report=total"]
        run_pytest(python, scale, *words, file)
        return [_result(case) for case in ET.parse(report.name).iter("testcase")]


def _result(case: ET.Element) -> Result:
    counts = [entry.attrib["value"] for entry in case.iter("property") if entry.attrib["name"] == "count"]
    outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
    module, *classes = re.split(r"(?<=\.)(?=[A-Z])", case.get("classname", "").removeprefix("tests."))
    name = "::".join((f"{module.rstrip('.').replace('.', '/')}.py", *classes, case.attrib["name"]))
    return Result(name, ", ".join(counts), outcome, float(case.attrib["time"]))


def document(scale: int, nights: list[Night]) -> Iterator[str]:
    """The lines of the report, with a table for each interpreter."""
    yield "# The latest results of the long tests\n"
    today = datetime.now(timezone.utc).date()
    yield f"`python -m benchmarks.nightly --scale {scale}` wrote this on {today}, with gputui {__version__}."
    yield f"The tests themselves ran on Python {platform.python_version()}.\n"
    for night in nights:
        yield from night.lines()


def main() -> int:
    """Run the long tests and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=["tests"], help="the tests that run, in this order")
    parser.add_argument("--scale", type=int, default=40, help="multiplies the usual counts (GPUTUI_TEST_SCALE)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests")
    parser.add_argument("--report", type=Path, default=REPORT, help="where the result is written")
    options = parser.parse_args()
    nights = []
    for python in torch_pythons():
        version = subprocess.run([python, "-c", VERSION], check=True, capture_output=True, text=True).stdout.strip()
        nights.append(Night(python, version, files_of_long_tests(python, options.scale, options.paths)))
    for night in nights:
        while night.waiting:
            night.results.extend(run_long_tests(night.python, options.scale, options.workers, night.waiting[0]))
            del night.waiting[0]
            options.report.write_text("\n".join(document(options.scale, nights)))
    return int(any(test.outcome != "passed" for night in nights for test in night.results))


if __name__ == "__main__":
    sys.exit(main())
