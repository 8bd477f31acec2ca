"""Marks the tests that are quick by the folder or file in which they are: all there that start no PyTorch."""

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
QUICK = (
    *(
        "test_*.py",
        "explain",
        "export/test_page.py",
        "export/test_server.py",
        "model",
        "opening",
        "recording",
        "sources",
        "whatif",
    ),
    *("ui/backend", "ui/drawing", "ui/test_*.py"),
)
NOT_QUICK = (
    *("sources/test_hostile_processes.py", "ui/test_crowd.py"),  # thousands of processes
    *("ui/test_states.py", "ui/test_wire.py"),  # every state of every screen, and long sessions
)
STARTS_PYTORCH = {"torch_path", "cuda_path"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Runs before -m, which selects by marks."""
    quick, others = ({path for pattern in patterns for path in TESTS.glob(pattern)} for patterns in (QUICK, NOT_QUICK))
    is_quick = {path: bool({path, *path.parents} & quick) and path not in others for path in {i.path for i in items}}
    for item in items:
        if is_quick[item.path] and not STARTS_PYTORCH & set(item.fixturenames):
            item.add_marker("quick")
