"""Gives the tests the same surroundings everywhere: what the caller has set reaches neither them nor their programs."""

import os
import shutil
import signal
import tempfile
import time

import pytest

KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL"),
    *("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PYENV_", "NIX_"),  # a Python or a compiler may need them
    *("CI", "PYTEST_", "COVERAGE_", "FAKEGPU_LIB", "GPUTUI_TEST_"),  # are about the tests
    "TORCH_DISABLE_NATIVE_JIT",  # tests/torches.py sets it
)
"""How the variables begin that the tests take over from their caller."""

SET = {
    "GPUTUI_PROBE": "0",  # tests import parts of the probe, which must not start in their own processes
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}
OF_THE_USER = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Where gputui reads and writes a user's files; in the tests, that is an empty folder."""

USERS_FOLDER = pytest.StashKey[str]()


def surroundings(caller):
    """The environment of the tests, made from that of their caller."""
    return {name: value for name, value in caller.items() if name.startswith(KEPT)} | SET


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Runs when pytest knows how its own output looks, and before it starts other processes and collects tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup ignores SIGHUP
    os.umask(0o022)
    tempfile.tempdir = None  # $TMPDIR, where it was looked up already: the paths of sockets below it could be too long
    folder = os.environ["XDG_CONFIG_HOME"] if hasattr(config, "workerinput") else ""
    kept = surroundings(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    time.tzset()
    if not folder:
        folder = config.stash[USERS_FOLDER] = tempfile.mkdtemp(prefix="gputui-user-")
    os.environ.update(dict.fromkeys(OF_THE_USER, folder))


def pytest_unconfigure(config):
    if USERS_FOLDER in config.stash:
        shutil.rmtree(config.stash[USERS_FOLDER])
