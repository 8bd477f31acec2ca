"""Deselects the tests that this machine cannot run, and reports at the end how many and why."""

import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.other_pythons import other_python
from tests.scale import SCALE
from tests.torches import NO_CUDA_BUILD, lacking_packages

ROOT = Path(__file__).resolve().parent.parent.parent
READABLE_PATH = "a checkout in a path of ASCII letters, or Python 3.13"
MODULE = "the module "
WORKING_GDB = "a gdb that can call a function on this processor"
CONTAINERS = "namespaces of users and of processes, which unshare makes here"
OUTSIDE_SHM = "a checkout outside /dev/shm"
IPV6 = "IPv6 on the loopback"
NIGHT = "a night: python -m benchmarks.nightly"
LEFT_OUT = pytest.StashKey[Counter]()


def lacks(item: pytest.Item) -> str:
    """What a test needs and this machine lacks, or ""."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        return "root, for other users and for mounts"
    python = item.callspec.params.get("cuda_path") if getattr(item, "callspec", None) else None
    if python == NO_CUDA_BUILD:
        return "a CUDA build of PyTorch"
    for marker in item.iter_markers("needs"):
        if not is_there(marker.args[0]):
            return str(marker.args[0])
    packages = item.get_closest_marker("packages")
    return " and ".join(lacking_packages(python, packages.args)) if packages and python else ""


def waits_for(item: pytest.Item) -> str:
    """The night, for some cases of the longest tests, or ""."""
    return NIGHT if SCALE == 1 and item.get_closest_marker("night") else ""


@cache
def is_there(need: str) -> bool:
    """Whether this machine has a Python, a module, a program, a place, or what a file of the kernel's tells of."""
    if need in _CHECKS:
        return _CHECKS[need]()
    if need.startswith(MODULE):
        return find_spec(need.removeprefix(MODULE)) is not None
    if need.startswith("python"):
        return bool(other_python(need))
    return Path(need).exists() if need.startswith("/") else shutil.which(need) is not None


def answers_by_ipv6() -> bool:
    """Many containers have it switched off."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@cache
def makes_namespaces() -> bool:
    """Many containers forbid it."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--cgroup", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def can_have_this_path() -> bool:
    """Without UTF-8, older Pythons do not start if an editable installation in another path is among their packages."""
    return str(ROOT).isascii() or sys.version_info >= (3, 13)


@cache
def gdb_works() -> bool:
    """Older versions of gdb cannot write the registers of newer processors: they end what they call a function in."""
    with subprocess.Popen(["sleep", "60"], stderr=subprocess.DEVNULL) as asleep:
        command = ["gdb", "-q", "-nx", "-batch", "-p", str(asleep.pid), "-ex", "call (int)getpid()"]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        asleep.kill()
    return "extended state status" not in said.stderr + said.stdout


_CHECKS = {
    READABLE_PATH: can_have_this_path,
    WORKING_GDB: lambda: shutil.which("gdb") is not None and gdb_works(),
    CONTAINERS: lambda: shutil.which("unshare") is not None and makes_namespaces(),
    OUTSIDE_SHM: lambda: not ROOT.is_relative_to("/dev/shm"),
    IPV6: answers_by_ipv6,
}
"""What is no program, file, module or Python."""


def pytest_configure(config):
    config.stash[LEFT_OUT] = Counter()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Runs after -k and -m, so that only tests selected by them are counted."""
    is_single = all("::" in str(argument) for argument in config.args)
    needs = {item: lacks(item) or ("" if is_single else waits_for(item)) for item in items}
    if left_out := [item for item in items if needs[item]]:
        config.hook.pytest_deselected(items=left_out)
        config.stash[LEFT_OUT] = Counter(needs[item] for item in left_out)
        items[:] = [item for item in items if not needs[item]]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Every xdist worker deselects the same tests, so the counts are merged by maximum, not added."""
    node.config.stash[LEFT_OUT] |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    """Write after all others, so that these are the last lines but one."""
    yield
    for need, count in config.stash[LEFT_OUT].items():
        tests = "1 test was" if count == 1 else f"{count} tests were"
        terminalreporter.write_line(f"{tests} left out: {'it needs' if count == 1 else 'they need'} {need}.")
