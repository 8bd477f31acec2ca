"""A viewer attaches while the program imports what the probe needs as well: the probe waits for that, and serves it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gputui.sources.probe import listing
from tests.attach.children import LIMIT_S, Python

IMPORTING = """
    import gputui.probe, importlib.util, sys, time
    import _frozen_importlib as machinery
    from gputui.probe.guards import boundary

    name = sys.argv[1]
    spec = importlib.util.find_spec(name)
    with machinery._ModuleLockManager(name):  # as Python imports it
        module = machinery.module_from_spec(spec)
        spec._initializing = True
        sys.modules[name] = module
        print("ready", flush=True)
        waiting = getattr(machinery._blocking_on, "data", machinery._blocking_on)
        while not waiting and not boundary.OWN_THREAD.failures:
            time.sleep(0.001)
        spec.loader.exec_module(module)
        spec._initializing = False
    print("imported", *boundary.problems(), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("name", ["json", "struct"])
def test_a_module_that_the_program_is_importing_is_waited_for(python: Python, name: str) -> None:
    child = python.start(IMPORTING, name)
    child.expect("ready")
    with ThreadPoolExecutor() as threads:
        attached = threads.submit(listing.attach, child.pid)
        assert child.expect("imported") == ""
        with attached.result(LIMIT_S) as client:
            assert client.statistics().devices == ()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")
