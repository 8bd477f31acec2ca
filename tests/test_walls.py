"""Rules of the architecture that a linter cannot check: imports at run time, file lengths, and module names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gputui"
FOREIGN = ("textual", "rich", "pynvml", "psutil", "torch")
LINES_AT_MOST = 330
IN_ANY_PYTHON = [
    *sorted(PACKAGE.glob("pro[bt]*/**/*.py")),
    PACKAGE / "environment.py",
    PACKAGE / "inject" / "bootstrap.py",
]
GENERICS = {
    *("dict", "list", "tuple", "set", "frozenset", "type", "deque", "Counter", "defaultdict", "OrderedDict", "partial"),
    *(
        "Callable",
        "Iterable",
        "Iterator",
        "Mapping",
        "Sequence",
        "weakref.ref",
        "functools.partial",
        "re.Pattern",
        "re.Match",
    ),
}


@pytest.mark.parametrize("module", ["gputui.probe", "gputui.protocol", "gputui.model", "gputui.explain", "gputui.cli"])
def test_an_import_loads_no_library(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {FOREIGN!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"GPUTUI_PROBE": "0", "PATH": ""}
    )
    assert result.stdout.split() == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_not_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_AT_MOST


def test_no_module_has_a_catch_all_name() -> None:
    forbidden = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in forbidden]


@pytest.mark.parametrize("path", IN_ANY_PYTHON, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_runs_in_somebody_elses_python_can_be_imported_by_3_8(path: Path) -> None:
    """There, `dict[str, int]` is an error but in annotations, which are never evaluated."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for field in ("annotation", "returns")
        if isinstance(annotation := getattr(node, field, None), ast.AST)
        for part in ast.walk(annotation)
    }
    from_typing = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names
    }
    generics = GENERICS - from_typing
    evaluated = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and id(node) not in annotations and ast.unparse(node.value) in generics
    ]
    assert evaluated == []
