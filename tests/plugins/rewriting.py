"""Lets only one of xdist's workers rewrite the assertions of a file: the others wait, and read what it has kept.

All begin at the same time with the same files, and on a fresh checkout each would do all the work for itself.
"""

import fcntl
import sys

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    is_alone = not hasattr(collector.config, "workerinput") or sys.dont_write_bytecode
    if is_alone or not isinstance(collector, pytest.Module):
        return (yield)
    with collector.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)
