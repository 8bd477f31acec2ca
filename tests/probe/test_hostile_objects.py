"""No look runs the program's code: metaclasses, names, namespaces and signal handlers that count their calls."""

import pytest

from tests.probe.test_inventory_checks import checks_in
from tests.scale import sized

pytestmark = [pytest.mark.every_torch, pytest.mark.long]

LOOKS = sized(1, 5)
"""Of each kind, at each object."""


@pytest.fixture(scope="session")
def hostile(run_once):
    return run_once("hostile_objects.py", str(LOOKS))


@pytest.mark.parametrize("name", checks_in("hostile_objects.py"))
def test_a_look_runs_no_code_of(hostile, name, record_property):
    record_property("count", f"{LOOKS} looks of each kind")
    assert hostile[name] == "", hostile[name]
