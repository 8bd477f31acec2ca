"""Whatever the probe raises at one of its lines, the program does not notice, and the next look is as ever.

What a pending call, the probe's own thread and the out-of-memory observer reach is found by a tracer, which then raises
there: a fault of the probe's, MemoryError and RecursionError, and a signal to the program, whose handler raises.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scale import SCALE
from tests.torches import REPOSITORY

STRIDES = {"main": 900, "thread": 300, "observer": 900}
"""One of so many lines is taken by day."""
PARTS = {"main": 24, "thread": 24, "observer": 12}
"""Every line is taken at night, by so many tests: pytest ends one that takes too long."""
LINES_AT_LEAST = 900
BY_DAY = [(entry, 0, stride) for entry, stride in STRIDES.items()]
AT_NIGHT = [(entry, part, parts) for entry, parts in PARTS.items() for part in range(parts)]


@pytest.mark.parametrize(("entry", "first", "stride"), BY_DAY if SCALE == 1 else AT_NIGHT)
@pytest.mark.long
def test_no_exception_at_a_line_of_the_probe_reaches_the_program(
    run_program, tmp_path: Path, record_property: Callable[[str, object], None], entry: str, first: int, stride: int
) -> None:
    folders = {"XDG_RUNTIME_DIR": str(tmp_path), "GPUTUI_BLACK_BOX": str(tmp_path / "kept")}
    words = (entry, str(first), str(stride))
    report = run_program("raising.py", *words, GPUTUI_PROBE="1", **folders)
    record_property("count", f"{report['lines']} lines")
    assert report["faults"] == []
    assert report["lines"] > LINES_AT_LEAST // stride


LIFE_STRIDE, LIFE_LINES_AT_LEAST = 8, 150


@pytest.mark.long
def test_no_exception_at_a_line_of_its_start_fork_and_end_reaches_the_program(run_program, tmp_path: Path) -> None:
    stride = max(1, LIFE_STRIDE // SCALE)
    variables = {"XDG_RUNTIME_DIR": str(tmp_path), "GPUTUI_PROBE": "1"}
    report = run_program("raising_life.py", str(stride), is_forked=False, **variables)
    assert report["faults"] == []
    assert report["lines"] > LIFE_LINES_AT_LEAST // stride


REGISTERS = ("register", "register_at_fork", "start_new_thread", "_cuda_attach_out_of_memory_observer", "call_later")
"""By these, functions are given away that are called later: at exit, at a fork, in a thread, by PyTorch."""
SPECIAL = ("__bool__", "__call__", "__del__", "find_spec")
"""What the interpreter calls by itself."""
WRAPPERS = {"emptied.py": "wrapper"}
"""What the program calls in the place of a function of PyTorch's, in these files."""
OF_THE_PROGRAM = ("self._invoke", "original")
"""What such a function calls that is the program's own."""
ENTERING = ("BLACK_BOX.enter", "HISTORY.enter", "LIFE.enter", "MAIN_THREAD.enter", "OWN_THREAD.enter", "_enter")
PROBE = sorted((REPOSITORY / "gputui" / "probe").rglob("*.py"))


def given_away(tree: ast.Module) -> Iterator[str]:
    """The functions of a module that it gives to somebody who calls them later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in REGISTERS:
            yield from map(ast.unparse, [*node.args[:1], *(word.value for word in node.keywords)])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".register_callback"):
            yield ast.unparse(node.args[-1]).rpartition(".")[2]


def unguarded(function: ast.FunctionDef) -> list[str]:
    """What a function calls outside of the boundary."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    inside = {id(part) for call in calls if ast.unparse(call.func) in ENTERING for part in ast.walk(call)}
    return [name for call in calls if id(call) not in inside and (name := ast.unparse(call.func)) not in OF_THE_PROGRAM]


def test_the_probe_is_entered_through_the_boundary_alone() -> None:
    for path in PROBE:
        check_entries(path)


def check_entries(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    given = {name for name in given_away(tree) if not name.endswith(".fileno()")} - set(ENTERING)
    entries = [functions[name] for name in functions if name in {*given, *SPECIAL, WRAPPERS.get(path.name)}]
    assert given <= functions.keys(), path
    assert WRAPPERS.get(path.name) in {None, *functions}, path
    assert {entry.name: unguarded(entry) for entry in entries if unguarded(entry)} == {}, path
