"""Runs the tests on all cores, unless -n says on how many or every argument names one test."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Before pytest-xdist reads its own options, where it is on."""
    option = config.option
    if hasattr(config, "workerinput") or not hasattr(option, "numprocesses"):
        return
    if option.numprocesses is None:
        option.numprocesses = 0 if all("::" in str(each) for each in config.args) else "logical"
    if option.numprocesses and option.dist == "no":
        option.dist = "worksteal"  # half of the tests for each to begin with: neighbours share session fixtures
