"""The tests marked `long`, with counts for a night: leaks and rare states that the usual counts would not show.

    [GPUTUI_TEST_TORCH=one/bin/python:other/bin/python] python -m benchmarks.nightly [--scale 40] [--workers 1]

It runs them with each interpreter, writes what came of it to benchmarks/NIGHTLY.md, and ends with 1 where one failed.
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
class Ran:
    """One test with one interpreter; `count` in words, such as "20000 looks"."""

    name: str
    count: str
    outcome: str
    worker_s: float


def run_long_tests(python: str, scale: int, workers: int) -> list[Ran]:
    """Run the long tests with an interpreter's PyTorch, as pytest prints them."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        words = ["-m", "long", "-n", str(workers), f"--junit-xml={report.name}", "-o", "junit_duration_report=total"]
        variables = {**os.environ, "GPUTUI_TEST_TORCH": python, "GPUTUI_TEST_SCALE": str(scale)}
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=REPOSITORY, env=variables, check=False)
        return [_ran(case) for case in ET.parse(report.name).iter("testcase")]


def _ran(case: ET.Element) -> Ran:
    counts = [each.attrib["value"] for each in case.iter("property") if each.attrib["name"] == "count"]
    outcome = next((each.tag for each in case if each.tag in ("failure", "error", "skipped")), "passed")
    module = case.attrib["classname"].removeprefix("tests.").replace(".", "/")
    return Ran(f"{module}.py::{case.attrib['name']}", ", ".join(counts), outcome, float(case.attrib["time"]))


def document(scale: int, ran: dict[str, list[Ran]]) -> Iterator[str]:
    """The lines of the report, for each interpreter a table."""
    yield "# The long tests, the last time\n"
    today = datetime.now(timezone.utc).date()
    yield f"`python -m benchmarks.nightly --scale {scale}` wrote this on {today}, with gputui {__version__}."
    yield f"The tests themselves ran on Python {platform.python_version()}.\n"
    for version, tests in ran.items():
        passed = sum(test.outcome == "passed" for test in tests)
        yield f"## {version}\n"
        yield f"{passed} of {len(tests)} passed, in {sum(test.worker_s for test in tests):.0f} s of one worker.\n"
        yield "| test | count | outcome | s |\n| --- | ---: | --- | ---: |"
        yield from (f"| {test.name} | {test.count} | {test.outcome} | {test.worker_s:.0f} |" for test in tests)
        yield ""


def main() -> int:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=int, default=40, help="multiplies the usual counts (GPUTUI_TEST_SCALE)")
    parser.add_argument("--workers", type=int, default=1, help="processes that run tests")
    parser.add_argument("--report", type=Path, default=REPORT, help="where the result is written")
    options = parser.parse_args()
    ran = {}
    for python in torch_pythons():
        told = subprocess.run([python, "-c", VERSION], check=True, capture_output=True, text=True)
        ran[told.stdout.strip()] = run_long_tests(python, options.scale, options.workers)
    options.report.write_text("\n".join(document(options.scale, ran)))
    return int(any(test.outcome != "passed" for tests in ran.values() for test in tests))


if __name__ == "__main__":
    sys.exit(main())
