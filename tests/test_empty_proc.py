"""Every command where /proc is not mounted: a sentence, and no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.attach.children import LIMIT_S
from tests.conftest import ROOT, FakeGpus

COMMANDS = {
    "--once": 0,
    "--once --json": 0,
    "doctor": 0,
    "attach": 1,
    "attach 7": 1,
    "attach 7 --once": 1,
    "attach --job 7": 1,
    "step 7": 1,
    "snapshot 7 -o /dev/null": 1,
    "whatif 7": 1,
}

WITHOUT_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


@pytest.mark.root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_proc_is_named(fake_gpus: FakeGpus, command: str) -> None:
    fake_gpus.process(4711, {0: 300})
    done = subprocess.run(
        [*WITHOUT_PROC, sys.executable, "-m", "gputui", *command.split()],
        env={**fake_gpus.environment, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "/proc is empty, so nothing is known of the processes here." in done.stdout + done.stderr
    assert done.returncode == COMMANDS[command]
