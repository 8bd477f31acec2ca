"""A short run of `benchmarks.soak`: neither side grows while viewers come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import Soak, descriptors, held_kib
from tests.attach.children import wait_until
from tests.scale import scaled

ACTIONS = scaled(12, 24)
GROWN_KIB = 16 * 1024
"""Heaps still settle over so few actions; the leaks that this test looks for reach ten times that within an hour."""


@pytest.mark.long
def test_a_short_soak(torch_path: str, tmp_path: Path, sockets: Path, record_property) -> None:
    record_property("count", f"{ACTIONS} actions")
    soak = Soak(torch_path, tmp_path, ranks=2, seed=3, is_forked=True)
    try:
        pids = [rank.process.pid for rank in soak.ranks]
        alone = [descriptors(pid) for pid in pids]
        for _ in range(ACTIONS // 3):
            soak.run_action()
        soak.close_viewers()
        before = [held_kib(pid) for pid in pids]
        for _ in range(ACTIONS):
            soak.run_action()
        assert all(held_kib(pid) - kib < GROWN_KIB for pid, kib in zip(pids, before, strict=True))
        soak.close_viewers()
        wait_until(lambda: [descriptors(pid) for pid in pids] == alone, "the end of every connection")
        soak.kill_rank()
        soak.sample()
        assert soak.problems() == []
        assert {"arrive", "look", "leave", "nonsense"} <= soak.counts.keys()
    finally:
        soak.end()
