"""Bytes sent to the terminal per moment, on the attach screens of a training program whose counters keep changing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gputui.model.attached.moment import TargetMoment
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe.feed import TargetFeed
from tests import torches
from tests.attach.children import Python, wait_until
from tests.ui.attach.sitting import sitting
from tests.ui.wire import Wire

PROGRAM = Path(__file__).parent / "programs" / "gpt.py"
MOMENTS, COUNTED = 62, 25
BYTES_A_MOMENT = 2048
KEYS = {"memory": "1", "why": "2", "map": "3", "tensors": "4", "changes": "5", "ranks": "6"}


@pytest.fixture(scope="module")
def training(cuda_path: str, tmp_path_factory: pytest.TempPathFactory) -> list[TargetMoment]:
    """The moments that a feed delivered for a GPT in training, with times rewritten to one per second."""
    folder = tmp_path_factory.mktemp("training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("s")))
        python = Python(cuda_path, folder, torches.fake_cuda(cuda_path, folder))
        try:
            child = python.fork(PROGRAM, "behave", "2", "0")
            child.expect("ready")
            delivered: list[TargetMoment] = []
            feed = TargetFeed(child.attach(), Snapshot, delivered.append, interval_s=0.05)
            feed.start()
            wait_until(lambda: len(delivered) >= MOMENTS, f"{MOMENTS} moments")
            feed.stop()
        finally:
            python.end()
    moments = [moment for moment in delivered[:MOMENTS] if moment.devices and not moment.ended]
    start = moments[0].time
    return [
        replace(moment, time=start + number, look_time=min(moment.look_time, start + number))
        for number, moment in enumerate(moments)
    ]


def test_the_counters_of_the_program_change(training: list[TargetMoment]) -> None:
    allocated = [moment.devices[0].statistics.allocated_bytes for moment in training[-COUNTED:]]
    assert len(training) > 2 * COUNTED
    assert len(set(allocated)) >= COUNTED / 10


@pytest.mark.parametrize("name", KEYS)
async def test_a_moment_costs_at_most_two_kibibytes(name: str, training: list[TargetMoment]) -> None:
    async with sitting(*training[:-COUNTED], size=(120, 40)) as at:
        await at.press(KEYS[name])
        wire = Wire(at.app)
        at.app.screen.refresh()
        await at.settle()
        wire.sent.clear()
        for moment in training[-COUNTED:]:
            await at.deal(moment)
        assert wire.bytes <= BYTES_A_MOMENT * COUNTED, f"{wire.bytes / COUNTED:.0f} bytes a moment"
