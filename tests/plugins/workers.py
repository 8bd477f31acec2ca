"""Runs the tests on all cores, unless -n sets the number of workers or every argument names a single test."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Set the options of pytest-xdist, if it is loaded, before it reads them."""
    option = config.option
    if hasattr(config, "workerinput") or not hasattr(option, "numprocesses"):
        return
    if option.numprocesses is None:
        option.numprocesses = 0 if all("::" in str(argument) for argument in config.args) else "logical"
    if option.numprocesses and option.dist == "no":
        option.dist = (
            "worksteal"  # each worker starts with a contiguous share, because neighbouring tests share session fixtures
        )
