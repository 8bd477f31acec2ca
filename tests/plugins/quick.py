"""Marks the tests that are quick, and those of screens, by folder or file: all there that start no PyTorch."""

from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
QUICK = (
    *("test_*.py", "explain", "export/test_page.py", "export/test_server.py", "model", "opening", "recording"),
    *("sources", "ui/backend", "ui/drawing", "whatif"),
)
SCREENS = ("ui/test_*.py", "ui/attach/test_keys.py", "ui/attach/test_screens.py")
NEITHER = (
    *("sources/test_hostile_processes.py", "ui/test_crowd.py"),  # thousands of processes
    *("ui/test_states.py", "ui/test_wire.py"),  # every state of every screen, and long sessions
)
STARTS_PYTORCH = {"torch_path", "cuda_path"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Runs before -m, which selects by marks."""
    marks = {path: _mark_of(path) for path in {item.path for item in items}}
    for item in items:
        if marks[item.path] and not STARTS_PYTORCH & set(item.fixturenames):
            item.add_marker(marks[item.path])


def _mark_of(path: Path) -> str:
    quick, screens, neither = map(_found, (QUICK, SCREENS, NEITHER))
    if path in neither:
        return ""
    return "quick" if {path, *path.parents} & quick else "screens" if path in screens else ""


@cache
def _found(patterns: tuple[str, ...]) -> set[Path]:
    return {path for pattern in patterns for path in TESTS.glob(pattern)}
