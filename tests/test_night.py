"""What waits for a night is there under the name that the table has."""

import ast

import pytest

from tests.plugins.night import BY_DAY, TESTS


@pytest.mark.parametrize("file", BY_DAY)
def test_the_tests_of_which_cases_wait_for_a_night_are_there(file):
    nodes = ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
    functions = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert BY_DAY[file].keys() <= functions
