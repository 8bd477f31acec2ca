"""Runs the tests on all cores, unless -n sets the number of workers or every argument names a single test.

There are two workers more than there are cores, as a test that waits for a program of its own leaves its core idle.
Each collects garbage seldom.
"""

import gc
import os

import pytest

ALLOCATIONS = 20_000
"""Between two collections of garbage: with Python's 700, screens in a process of many tests take a tenth longer."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Set the options of pytest-xdist, if it is loaded, before it reads them."""
    option = config.option
    if hasattr(config, "workerinput") or not hasattr(option, "numprocesses"):
        return
    if option.numprocesses is None:
        is_single = all("::" in str(argument) for argument in config.args)
        option.numprocesses = 0 if is_single else len(os.sched_getaffinity(0)) + 2
    if option.numprocesses and option.dist == "no":
        option.dist = "worksteal"  # each starts with a contiguous share, as neighbouring tests share session fixtures


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """What is there by now stays to the end."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)
