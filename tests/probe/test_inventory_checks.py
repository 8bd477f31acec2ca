"""Checks that run inside programs: an inventory's side effects, and the names and categories of tensors."""

import ast

import pytest

from tests.probe.conftest import PROGRAMS
from tests.scale import scaled

pytestmark = pytest.mark.every_torch


def checks_in(program):
    functions = [node for node in ast.parse((PROGRAMS / program).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if any(getattr(d, "id", "") == "check" for d in node.decorator_list)]


LOOKS = scaled(40, 500)
LONG = "many_looks_leak_no_objects_or_memory"
MANNERS = [pytest.param(name, marks=[pytest.mark.long] * (name == LONG)) for name in checks_in("manners.py")]


@pytest.fixture(scope="session")
def manners(run_once):
    return run_once("manners.py", str(LOOKS))


@pytest.mark.parametrize("name", MANNERS)
def test_an_inventory_does_not_change_the_program(manners, name, record_property):
    record_property("count", f"{LOOKS} looks")
    assert manners[name] == "", manners[name]


@pytest.fixture(scope="session")
def naming(run_once):
    return run_once("naming.py")


@pytest.mark.parametrize("name", checks_in("naming.py"))
def test_a_tensor_has_the_name_and_category_a_person_would_give_it(naming, name):
    assert naming[name] == "", naming[name]


@pytest.fixture(scope="session")
def hidden_places(run_once):
    return run_once("hidden_places.py")


@pytest.mark.parametrize("name", checks_in("hidden_places.py"))
def test_a_tensor_in_an_unusual_place_has_the_name_of_its_variable(hidden_places, name):
    assert hidden_places[name] == "", hidden_places[name]
