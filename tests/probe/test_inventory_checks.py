"""What an inventory must not do to a program, and which tensors it can read, checked in the program itself."""

import ast

import pytest

from tests.probe.conftest import PROGRAMS
from tests.scale import SCALE

pytestmark = pytest.mark.every_torch


def checks_in(program):
    functions = [node for node in ast.parse((PROGRAMS / program).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if any(getattr(d, "id", "") == "check" for d in node.decorator_list)]


LOOKS = 500 * SCALE
LONG = "many_looks_leave_no_object_and_no_memory"
MANNERS = [pytest.param(name, marks=[pytest.mark.long] * (name == LONG)) for name in checks_in("manners.py")]


@pytest.fixture(scope="session")
def manners(run_once):
    return run_once("manners.py", str(LOOKS))


@pytest.mark.parametrize("name", MANNERS)
def test_the_program_goes_on_as_it_would_have(manners, name, record_property):
    record_property("count", f"{LOOKS} looks")
    assert manners[name] == "", manners[name]


@pytest.fixture(scope="session")
def naming(run_once):
    return run_once("naming.py")


@pytest.mark.parametrize("name", checks_in("naming.py"))
def test_a_tensor_has_the_name_and_kind_a_person_would_give_it(naming, name):
    assert naming[name] == "", naming[name]
