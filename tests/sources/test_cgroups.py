"""Limits of control groups, of both versions, as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.host import Host, HostMemory, Space
from gputui.model.machine.snapshot import Snapshot
from gputui.once.document import document
from gputui.once.table import plain
from gputui.settings import Settings
from gputui.sources.cgroups import CgroupLimits
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.monitor.host import draw_host

GIB = 1 << 30
NO_LIMIT_1 = "9223372036854771712\n"


def machine(folder: Path, membership: str, files: dict[str, str]) -> CgroupLimits:
    """A machine whose /proc and /sys have these files."""
    files = {"proc/self/cgroup": membership, **{f"sys/fs/cgroup/{path}": text for path, text in files.items()}}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return CgroupLimits(folder / "proc", folder / "sys", clock=lambda: 1000.0)


CPUS = os.cpu_count() or 1
CASES = {
    "nothing": ("", {}, None, None),
    "a host": (
        "0::/user.slice\n",
        {"user.slice/memory.max": "max\n", "user.slice/cpu.max": "max 100000\n"},
        None,
        None,
    ),
    "a container that sees its own group as the root": (
        "0::/\n",
        {
            "memory.max": f"{16 * GIB}\n",
            "memory.current": f"{9 * GIB}\n",
            "memory.stat": f"anon 1\ninactive_file {GIB}\n",
        },
        Space(16 * GIB, 8 * GIB),
        None,
    ),
    "a job whose parent has the lower limit": (
        "0::/slurm/job_7/step_0\n",
        {
            "slurm/job_7/step_0/memory.max": f"{64 * GIB}\n",
            "slurm/job_7/step_0/memory.current": f"{GIB}\n",
            "slurm/job_7/memory.max": f"{32 * GIB}\n",
            "slurm/job_7/memory.current": f"{3 * GIB}\n",
        },
        Space(32 * GIB, 3 * GIB),
        None,
    ),
    "half a processor": ("0::/a\n", {"a/cpu.max": "50000 100000\n"}, None, 0.5),
    "a quota of more than there is": ("0::/a\n", {"a/cpu.max": f"{(CPUS + 1) * 100000} 100000\n"}, None, None),
    "one processor of all": ("0::/a\n", {"a/cpuset.cpus.effective": "0\n"}, None, 1 if CPUS > 1 else None),
    "the first version": (
        "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/\n",
        {
            "memory/docker/abc/memory.limit_in_bytes": f"{4 * GIB}\n",
            "memory/docker/abc/memory.usage_in_bytes": f"{3 * GIB}\n",
            "memory/docker/abc/memory.stat": f"total_inactive_file {GIB}\n",
            "memory/memory.limit_in_bytes": NO_LIMIT_1,
            "cpu/docker/abc/cpu.cfs_quota_us": "25000\n",
            "cpu/docker/abc/cpu.cfs_period_us": "100000\n",
        },
        Space(4 * GIB, 2 * GIB),
        0.25,
    ),
    "the first version without a limit": (
        "4:memory:/\n1:cpu:/\n",
        {
            "memory/memory.limit_in_bytes": NO_LIMIT_1,
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
        },
        None,
        None,
    ),
    "noise": (
        "::\n\nxyz\n0::/a\n",
        {"a/memory.max": "a lot\n", "a/cpu.max": "1 0\n", "a/cpuset.cpus.effective": "0-,,-1\n", "memory.max": "\xff"},
        None,
        None,
    ),
}


@pytest.mark.parametrize(("membership", "files", "memory", "processors"), CASES.values(), ids=CASES.keys())
def test_the_lowest_limit_counts(
    tmp_path: Path, membership: str, files: dict[str, str], memory: Space | None, processors: float | None
) -> None:
    limits = machine(tmp_path, membership, files)
    assert (limits.memory(), limits.processors()) == (memory, processors)


LIMITED = Host(
    cpu_percent=12.0,
    memory=HostMemory(2048 * GIB, 100 * GIB, 1948 * GIB, GIB, GIB),
    memory_limit=Space(16 * GIB, 15 * GIB),
    processor_limit=2.5,
)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_limits_stand_beside_the_hosts_figures(width: int) -> None:
    first, second = ("".join(text for text, _ in line) for line in draw_host(LIMITED, width, Appearance()))
    assert "limit 2.5 CPUs" in first
    assert "/2.0T   limit 94% 15.0G/16.0G" in second
    snapshot = Snapshot(time=1000.0, host=LIMITED, devices=DeviceLook())
    printed = plain(snapshot, width, Settings(), in_color=False)
    assert "limit 94% 15.0G/16.0G" in printed
    assert "limit 2.5 CPUs" in printed


def test_the_document_has_the_limits() -> None:
    host = document(Snapshot(time=1000.0, host=LIMITED))["host"]
    names = ("memory_limit_bytes", "memory_limit_used_bytes", "processor_limit")
    assert [host[name] for name in names] == [16 * GIB, 15 * GIB, 2.5]
    without = document(Snapshot(time=1000.0))["host"]
    assert [without[name] for name in names] == [None, None, None]
