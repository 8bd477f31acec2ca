"""The tests marked `long` or `night`, with counts for a whole night: for leaks and rare states that others miss.

    [GPUTUI_TEST_TORCH=one/bin/python:other/bin/python] python -m benchmarks.nightly [--scale 40] [--workers 1]

With them run those for packages that an interpreter has (`packages`), such as vLLM, which CI leaves out.
It runs them with each interpreter, writes the results to benchmarks/NIGHTLY.md, and exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree as ET

from gputui import __version__
from tests.torches import REPOSITORY, torch_pythons

REPORT = Path(__file__).parent / "NIGHTLY.md"
VERSION = (
    "import importlib.metadata as m, sys; print('PyTorch', m.version('torch'), 'on Python', sys.version.split()[0])"
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test with one interpreter; `count` is text such as "20000 looks"."""

    name: str
    count: str
    outcome: str
    worker_s: float


def run_long_tests(python: str, scale: int, workers: int) -> list[Result]:
    """Run the long tests with an interpreter's PyTorch, showing pytest's output, and return their results."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        words = ["-m", "long or night or packages", "-n", str(workers), f"--junit-xml={report.name}"]
        words += ["-o", "junit_duration_report=total"]
        variables = {**os.environ, "GPUTUI_TEST_TORCH": python, "GPUTUI_TEST_SCALE": str(scale)}
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=REPOSITORY, env=variables, check=False)
        return [_result(case) for case in ET.parse(report.name).iter("testcase")]


def _result(case: ET.Element) -> Result:
    counts = [entry.attrib["value"] for entry in case.iter("property") if entry.attrib["name"] == "count"]
    outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
    module = case.attrib["classname"].removeprefix("tests.").replace(".", "/")
    return Result(f"{module}.py::{case.attrib['name']}", ", ".join(counts), outcome, float(case.attrib["time"]))


def document(scale: int, runs: dict[str, list[Result]]) -> Iterator[str]:
    """The lines of the report, with a table for each interpreter."""
    yield "# The latest results of the long tests\n"
    today = datetime.now(timezone.utc).date()
    yield f"`python -m benchmarks.nightly --scale {scale}` wrote this on {today}, with gputui {__version__}."
    yield f"The tests themselves ran on Python {platform.python_version()}.\n"
    for version, tests in runs.items():
        passed = sum(test.outcome == "passed" for test in tests)
        yield f"## {version}\n"
        yield f"{passed} of {len(tests)} passed, in {sum(test.worker_s for test in tests):.0f} s of one worker.\n"
        yield "| test | count | outcome | s |\n| --- | ---: | --- | ---: |"
        yield from (f"| {test.name} | {test.count} | {test.outcome} | {test.worker_s:.0f} |" for test in tests)
        yield ""


def main() -> int:
    """Run the long tests and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=40, help="multiplies the usual counts (GPUTUI_TEST_SCALE)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests")
    parser.add_argument("--report", type=Path, default=REPORT, help="where the result is written")
    options = parser.parse_args()
    runs = {}
    for python in torch_pythons():
        version = subprocess.run([python, "-c", VERSION], check=True, capture_output=True, text=True)
        runs[version.stdout.strip()] = run_long_tests(python, options.scale, options.workers)
    options.report.write_text("\n".join(document(options.scale, runs)))
    return int(any(test.outcome != "passed" for tests in runs.values() for test in tests))


if __name__ == "__main__":
    sys.exit(main())
