"""The modules imported at a start, counted because milliseconds depend on the machine and modules do not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import FakeGpus

ONCE = "gputui.cli.main(['--once'])"
FIRST_FRAME = """
import gputui.ui.backend.first_frame
def show_first_frame(snapshot, settings, appearance):
    assert snapshot.devices.devices
    raise SystemExit
gputui.ui.backend.first_frame.show_first_frame = show_first_frame
from gputui.commands.machine import monitor
monitor.fit_terminal = lambda settings: settings
try:
    monitor.open_monitor(gputui.cli.load_settings())
except SystemExit:
    pass
"""
COUNT = """
import sys
before = set(sys.modules)
import gputui.cli
{code}
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
STARTS = [pytest.param(ONCE, 107, id="one look, printed"), pytest.param(FIRST_FRAME, 89, id="the first frame")]
EXPENSIVE = {
    "textual": "60 ms",
    "dataclasses": "8 ms with `inspect`, and half a millisecond for each class: a NamedTuple takes a tenth",
    "pathlib": "4 ms with `urllib`",
    "asyncio": "20 ms",
    "json": "2 ms",
    "gputui.explain.advice": "no process is attached yet",
    "gputui.sources.demo": "only --demo needs it",
}
"""Modules that the first figures do not need, with their cost or the reason."""


def modules_of(code: str, gpus: FakeGpus) -> set[str]:
    """The modules that `code` adds to those of a new interpreter."""
    command = [sys.executable, "-c", COUNT.format(code=code)]
    run = subprocess.run(command, env=gpus.environment, capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.parametrize(("code", "_limit"), STARTS)
def test_the_first_figures_import_no_expensive_module(fake_gpus: FakeGpus, code: str, _limit: int) -> None:
    fake_gpus.up(2, busy=True)
    assert modules_of(code, fake_gpus) & EXPENSIVE.keys() == set()


@pytest.mark.parametrize(("code", "limit"), STARTS)
def test_the_first_figures_import_few_gputui_modules(fake_gpus: FakeGpus, code: str, limit: int) -> None:
    fake_gpus.up(2, busy=True)
    modules = modules_of(code, fake_gpus)
    assert "pynvml" in modules
    assert len([name for name in modules if name.startswith("gputui")]) <= limit


@pytest.mark.parametrize("module", ["gputui.probe.viewers.server", "gputui.probe.viewers.step"])
def test_a_viewer_does_not_make_the_probe_import_threading(fake_gpus: FakeGpus, module: str) -> None:
    """Python takes the thread that first imports it for the main thread, and a program would not end as it should."""
    assert "threading" not in modules_of(f"import {module}", fake_gpus)
