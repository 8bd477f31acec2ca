"""The checkout may lie in a folder with a space: no text of a test has the interpreter's path without quotes."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def texts_with_the_interpreter(path: Path) -> list[int]:
    """The lines of f-strings that have `sys.executable` as it is: a shell would take it for two words."""
    values = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FormattedValue)]
    return [node.lineno for node in values if ast.unparse(node.value) == "sys.executable"]


def test_no_text_has_the_path_of_the_interpreter_unquoted() -> None:
    found = {path.name: lines for path in TESTS.rglob("*.py") if (lines := texts_with_the_interpreter(path))}
    assert found == {}


def test_one_is_found(tmp_path: Path) -> None:
    path = tmp_path / "test_shell.py"
    path.write_text("run(f'{sys.executable} -m gputui')\nrun(f'{shlex.quote(sys.executable)} -V')")
    assert texts_with_the_interpreter(path) == [1]
