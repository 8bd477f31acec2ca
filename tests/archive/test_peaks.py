"""What a program held against what PyTorch had allocated of it, as its probe tells the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.archive.report import report
from gputui.archive.store import Archive, open_to_read
from gputui.commands.machine.record import Peaks, keep
from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Snapshot
from gputui.units import GIB, MIB
from tests.attach.children import Python
from tests.attach.conftest import cuda_python, sockets
from tests.ui import scenes

__all__ = ["cuda_python", "sockets"]

PEAK_MIB, KEPT_MIB = 200, 20
PROGRAM = f"""
import torch, gputui.probe
kept = torch.empty({KEPT_MIB} << 20, dtype=torch.uint8, device="cuda")
passing = torch.empty({PEAK_MIB - KEPT_MIB} << 20, dtype=torch.uint8, device="cuda")
del passing
print("ready", torch.cuda.get_device_properties(0).uuid, flush=True)
input()
"""


def test_a_probe_tells_the_record_what_was_allocated_of_what_was_held(cuda_python: Python, tmp_path: Path) -> None:
    child = cuda_python.fork(PROGRAM)
    uuid = f"GPU-{child.expect('ready').split()[-1]}"
    device = scenes.device(0, uuid=uuid)
    process = scenes.process(child.pid)._replace(
        identity=Identity(child.pid, 1.0), has_probe=True, uses=(DeviceUse(uuid, child.pid, "C", 8 * GIB),)
    )
    without = scenes.process(child.pid + 1)._replace(uses=(DeviceUse(uuid, child.pid + 1, "C", GIB),))
    snapshot: Snapshot = scenes.snapshot(devices=DeviceLook(devices=(device,)), processes=(process, without))
    archive = Archive(tmp_path / "machine.db")
    keep(archive, iter([snapshot, snapshot._replace(time=scenes.NOW + 10)]), Peaks().read)
    archive.close()
    database = open_to_read(tmp_path / "machine.db")
    first, second = report(database, 0, 1e12).processes
    database.close()
    assert (first.pid, first.held_bytes) == (child.pid, 8 * GIB)
    assert first.allocated_bytes == pytest.approx(PEAK_MIB * MIB, rel=0.02)
    assert second.allocated_bytes is None
