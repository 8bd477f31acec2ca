"""No test passes or fails by a clock: it waits for what shall come, and `tests.hanging` has the one limit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
BESIDE = ("programs", "fakegpu")
"""Folders of programs under test, which pace themselves."""

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time.time", "time.time_ns"}
WAITS = {
    "wait": 0,
    "wait_for": 1,
    "join": 0,
    "result": 0,
    "receive": 0,
    "settimeout": 0,
    "sigtimedwait": 1,
    "select": 3,
}
"""Functions that take the seconds they wait at most, and the place of these among the arguments."""
LIMITS = {"timeout", "timeout_s", "limit_s", "deadline"}

EXCEPTIONS = {
    "hanging.py": "has the limit",
    "archive/test_archive.py": "records an hour that ends now, as a report counts back from there",
    "blackbox/messages.py": "stamps a message with the time, as the probe does",
    "inject/test_loading.py": "puts the probe in at random moments of a program",
    "trust/test_nothing_is_lost.py": "compares the time of a reading with that of an event before it",
    "ending/sitecustomize.py": "runs in programs under test",
    "fleet/test_findings.py": "gives a server samples of an hour that ends now",
    "fuzz/false_probe.py": "is a program under test, which sends at a pace of its own",
    "trust/test_silent_sockets.py": "twelve waits one after the other would take twice as long as the limit",
    "fuzz/viewer.py": "is also a command, which fuzzes for as many minutes as it is told",
    "places.py": "is a command, which prints how long the tests took",
    "terminal/pty_session.py": "a program that rests is seen to rest in several pauses",
    "terminal/test_idle.py": "counts wake-ups in two seconds, of which a slow machine makes fewer",
    "test_benchmark_terminal.py": "waits a moment for words that no program prints",
    "test_once.py": "gives a driver that never answers little time, and expects that it does not answer",
}
"""Files that use a clock, and why none of their tests can fail on a slow or busy machine."""


def files() -> Iterator[tuple[str, Path]]:
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS)
        if not set(BESIDE) & set(name.parts):
            yield str(name), path


def seconds_in(node: ast.AST) -> bool:
    """Whether an expression is a number of seconds other than none."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value > 0


def uses_of_clocks(tree: ast.AST) -> Iterator[str]:
    """The places that sleep, read a clock, or wait for a number of seconds."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        name = function.rpartition(".")[2]
        limits = [keyword.value for keyword in node.keywords if keyword.arg in LIMITS]
        limits += node.args[WAITS[name] :][:1] if name in WAITS else []
        if function in CLOCKS or name in CLOCKS:
            yield f"{node.lineno}: reads a clock"
        elif name == "sleep" and ast.unparse(node.args[0]) not in ("0", "POLL_S"):
            yield f"{node.lineno}: sleeps"
        elif name == "pause" and any(map(seconds_in, node.args)):
            yield f"{node.lineno}: pauses"
        elif any(map(seconds_in, limits)):
            yield f"{node.lineno}: waits for a number of seconds"


@pytest.mark.parametrize(
    ("code", "is_use"),
    [
        ("time.sleep(0.1)", True),
        ("await asyncio.sleep(delay)", True),
        ("await pilot.pause(0.3)", True),
        ("assert time.monotonic() < end", True),
        ("start = perf_counter()", True),
        ("process.wait(60)", True),
        ("subprocess.run(words, timeout=60)", True),
        ("read(devices, limit_s=5)", True),
        ("await asyncio.sleep(0)", False),
        ("time.sleep(POLL_S)", False),
        ("await pilot.pause()", False),
        ("process.wait(HANGS_S)", False),
        ("reader.result(0.0)", False),
        ("', '.join(words)", False),
        ("moment.time", False),
    ],
)
def test_a_use_of_a_clock_is_found(code: str, *, is_use: bool) -> None:
    assert bool(list(uses_of_clocks(ast.parse(code)))) == is_use


def test_no_test_uses_a_clock() -> None:
    found = {name: list(uses_of_clocks(ast.parse(path.read_text(encoding="utf-8")))) for name, path in files()}
    using = {name: places for name, places in found.items() if places}
    assert {name: places for name, places in using.items() if name not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(using), "these need no exception any more"
