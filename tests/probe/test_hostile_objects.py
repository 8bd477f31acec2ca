"""No look runs the program's code: metaclasses, names, namespaces and signal handlers that count their calls."""

import pytest

from tests.probe.test_inventory_checks import checks_in

pytestmark = pytest.mark.every_torch


@pytest.fixture(scope="session")
def hostile(run_once):
    return run_once("hostile_objects.py")


@pytest.mark.parametrize("name", checks_in("hostile_objects.py"))
def test_a_look_runs_no_code_of(hostile, name):
    assert hostile[name] == "", hostile[name]
