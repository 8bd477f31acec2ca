"""What benchmarks take from the package is there: no other test runs most of them."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def taken() -> set[tuple[str, str]]:
    """The modules of the package that benchmarks import from, each with a name."""
    trees = [ast.parse(path.read_text()) for path in BENCHMARKS.rglob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {(node.module or "", alias.name) for node in imports for alias in node.names}


def is_there(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or bool(import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def test_what_benchmarks_import_is_there() -> None:
    names = {(module, name) for module, name in taken() if module.split(".")[0] == "gputui"}
    assert len(names) > 100
    assert {(module, name) for module, name in names if not is_there(module, name)} == set()
