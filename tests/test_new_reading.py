"""A new reading is a field, a declaration and an NVML call: everything that shows readings derives from these."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import ROOT, FakeGpus
from tests.hanging import HANGS_S

ADDITIONS = {
    "model/machine/device.py": (
        "    energy_j: Reading[float] = NOT_READ\n",
        "    default_limit_w: Reading[float] = NOT_READ\n",
    ),
    "model/machine/device_readings.py": (
        '    DeviceReading("energy_j",',
        """    DeviceReading(
        "default_limit_w",
        Cadence.RARELY,
        WATTS,
        A_POWER,
        POWER,
        "default limit",
        graph=ReadingGraph("Default limit", top=attrgetter("power_limit_w")),
        column=OverviewColumn("Default", 8, from_width=90),
        document="default_limit_w",
    ),
""",
    ),
    "sources/nvml/calls.py": (
        '    "energy_j": _one(',
        '    "default_limit_w": _one("nvmlDeviceGetPowerManagementDefaultLimit", convert=_watts),\n',
    ),
}
"""File of the package: one of its lines, and the text to insert before that line."""

DRAWN = """
from gputui.model.history import History
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.nvml import NvmlSource
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import draw_row, draw_titles, lay_out
from gputui.ui.drawing.monitor.device_page import draw_device_page
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS, DeviceRow
from gputui.explain.machine.record import record

look = NvmlSource().read()
history = History()
record(history, Snapshot(time=1000.0, devices=look))
(device,) = look.devices
assert history.last(device.key, "default_limit_w", 1) == [650.0]
columns = lay_out(DEVICE_COLUMNS, 120)
lines = [draw_titles(columns), draw_row(columns, DeviceRow(device, (), Appearance()))]
lines += draw_device_page(device, (), history, 0, (200, 60), Appearance())
print(*("".join(text for text, _ in line) for line in lines), sep="\\n")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with an invented reading added."""
    shutil.copytree(ROOT / "gputui", tmp_path / "gputui", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, addition) in ADDITIONS.items():
        path = tmp_path / "gputui" / name
        text = path.read_text()
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, addition + before))
    return tmp_path


def test_a_reading_declared_in_three_files_is_shown_everywhere(package: Path, fake_gpus: FakeGpus) -> None:
    assert len(ADDITIONS) <= 3
    fake_gpus.up(1)
    fake_gpus.set(0, max_power=650_000)

    def output(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            env={**fake_gpus.environment, "PYTHONPATH": str(package), "COLUMNS": "200"},
            cwd=package,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=True,
        ).stdout

    (device,) = json.loads(output("-m", "gputui", "--once", "--json"))["devices"]
    assert device["default_limit_w"] == 650.0
    title, row = next(
        lines for lines in pairwise(output("-m", "gputui", "--once").splitlines()) if "Default" in lines[0]
    )
    assert row[: title.index("Default") + len("Default")].endswith("  650W")
    head, overview, *page = output("-c", DRAWN).splitlines()
    assert overview[: head.index("Default") + len("Default")].endswith(" 650W")
    assert any("default limit      650 W" in line for line in page)
    assert any("Default limit ─" in line and " 650 W" in line for line in page)
