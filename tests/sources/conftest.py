"""An NVML source on a simulated clock, so that no test waits for seconds to pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gputui.model.machine.device import DeviceLook
from gputui.sources.nvml import NvmlSource
from tests.conftest import FakeGpus


class Looks:
    """An NvmlSource and its clock."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.source = NvmlSource(clock=lambda: self.time)

    def look(self, after_s: float = 1.0) -> DeviceLook:
        """Take a look, `after_s` seconds after the last one."""
        self.time += after_s
        return self.source.read()


@pytest.fixture
def looks(fake_gpus: FakeGpus) -> Iterator[Looks]:
    looks = Looks()
    yield looks
    looks.source.close()


@pytest.fixture
def busy_gpus(fake_gpus: FakeGpus) -> FakeGpus:
    """Two GPUs that answer every call, with processes of every kind on both."""
    fake_gpus.up(2, busy=True, fan=40)
    for device in (0, 1):
        fake_gpus.ghost(2, device=device, mib=100, pid=4_100_000 + 10 * device)
    return fake_gpus
