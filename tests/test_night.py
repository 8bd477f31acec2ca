"""What waits for a night, and what begins first, is there under the name that the table has."""

import ast

import pytest

from tests.plugins.longest import LONGEST, dealt
from tests.plugins.night import BY_DAY, TESTS


@pytest.mark.parametrize(("file", "names"), [*BY_DAY.items(), *LONGEST.items()])
def test_the_tests_of_which_cases_wait_for_a_night_or_begin_first_are_there(file, names):
    nodes = ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
    functions = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert set(names) <= functions


def test_each_share_begins_with_long_tests_and_has_all_that_it_had():
    """Of nine tests, pytest-xdist gives two workers the first four and the other five."""
    assert dealt([90, 91, 92], [1, 2, 3, 4, 5, 6], 2) == [90, 92, 1, 2, 91, 3, 4, 5, 6]
    assert dealt([90], [], 4) == [90]
