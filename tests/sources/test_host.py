"""The host source: on this machine, and with a /proc whose every number is known."""

import os
import warnings
from pathlib import Path

import psutil
import pytest

from gputui.model.machine.host import HostMemory, Space
from gputui.model.reading import Absent
from gputui.sources.host import HostSource
from gputui.units import GIB, KIB

SECOND_LOOK = Absent("known from the second look on")

STAT = """cpu  {busy} 0 0 {idle} 10 0 0 0 5 0
cpu0 {busy} 0 0 {idle} 10 0 0 0 5 0
cpu1 0 0 0 {idle} 0 0 0 0 0 0
intr 123 0 0 0
btime 1795000000
"""

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Buffers:          20 kB
Cached:          400 kB
SwapTotal:       200 kB
SwapFree:        150 kB
Shmem:           120 kB
SReclaimable:     30 kB
HugePages_Total:       0
"""

DISKSTATS = """   7       0 loop0 1 0 999999 0 1 0 999999 0 0 0 0
 259       0 nvme0n1 1 0 {read} 0 1 0 {written} 0 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 1 0 {read} 0 1 0 {written} 0 0 0 0
 253       0 dm-0 1 0 {read} 0 1 0 {written} 0 0 0 0
   9       0 md0 1 0 {read} 0 1 0 {written} 0 0 0 0
"""

NET_DEV = """Inter-|   Receive   |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 99999999    1    0    0    0     0          0         0 99999999    1    0    0    0     0       0          0
  eth0: {received}    1    0    0    0     0          0         0 {sent}    1    0    0    0     0       0          0
docker0:{received}    1    0    0    0     0          0         0 {sent}    1    0    0    0     0       0          0
"""


class Machine:
    """A folder with a /proc for psutil and a /sys, and a clock."""

    def __init__(self, folder, monkeypatch):
        self.proc, self.sys, self.time_s = folder / "proc", folder / "sys", 50.0
        (self.proc / "net").mkdir(parents=True)
        for disk in ("loop0", "nvme0n1", "dm-0", "md0"):
            (self.sys / "block" / disk).mkdir(parents=True)
        (self.sys / "class/net/eth0/device").mkdir(parents=True)
        (self.proc / "meminfo").write_text(MEMINFO)
        self.set()
        monkeypatch.setattr(psutil, "PROCFS_PATH", str(self.proc))
        self.source = HostSource(self.sys, clock=lambda: self.time_s)

    def set(self, busy=0, idle=0, read=0, written=0, received=0, sent=0):
        (self.proc / "stat").write_text(STAT.format(busy=busy, idle=idle))
        (self.proc / "diskstats").write_text(DISKSTATS.format(read=read, written=written))
        (self.proc / "net/dev").write_text(NET_DEV.format(received=received, sent=sent))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def test_this_machine_gives_every_reading():
    now = [100.0]
    source = HostSource(clock=lambda: now[0])
    source.read()
    now[0] += 1.0
    host = source.read()
    absent = {name: getattr(host, name) for name in host._fields if isinstance(getattr(host, name), Absent)}
    assert absent == {}
    assert host.hostname == os.uname().nodename
    assert len(host.core_percents) == os.cpu_count()
    assert 0 < host.memory.used_bytes < host.memory.total_bytes
    assert 0 <= host.shm.used_bytes <= host.shm.total_bytes


def test_shm_grows_by_the_bytes_written_to_it():
    before = HostSource().read().shm.used_bytes
    path = f"/dev/shm/gputui-test-{os.getpid()}"
    with open(path, "wb") as file:  # noqa: PTH123 - unlinked while open, so that no file remains
        os.unlink(path)  # noqa: PTH108
        file.write(bytes(64 * KIB * KIB))
        file.flush()
        assert HostSource().read().shm.used_bytes > before


def test_rates_and_percents_are_absent_at_the_first_look(machine):
    host = machine.source.read()
    assert host.cpu_percent == host.core_percents == SECOND_LOOK
    assert host.disk_read_bytes_per_s == host.disk_write_bytes_per_s == SECOND_LOOK
    assert host.network_receive_bytes_per_s == host.network_send_bytes_per_s == SECOND_LOOK


def test_cpu_percent_covers_the_last_interval_and_counts_iowait_as_idle(machine):
    machine.source.read()
    machine.set(busy=75, idle=25)
    host = machine.source.read()
    assert host.cpu_percent == 75.0
    assert host.core_percents == (75.0, 0.0)


@pytest.mark.parametrize("lines", ["", "cpu2 0 0 0 0 0 0 0 0 0 0\n"], ids=["goes offline", "comes online"])
def test_a_core_that_goes_on_or_offline_resets_the_percentages(machine, lines):
    machine.source.read()
    stat = (machine.proc / "stat").read_text()
    second = next(line for line in stat.splitlines(keepends=True) if line.startswith("cpu1"))
    (machine.proc / "stat").write_text(stat.replace(second, second + lines if lines else ""))
    assert machine.source.read().core_percents == SECOND_LOOK
    machine.set(busy=50, idle=50)
    assert machine.source.read().core_percents == SECOND_LOOK
    machine.set(busy=125, idle=75)
    assert machine.source.read().core_percents == (75.0, 0.0)


def test_a_very_short_look_excludes_the_cpu_time_of_gputui(machine, monkeypatch):
    own_s = [3.0]
    monkeypatch.setattr("time.process_time", lambda: own_s[0])
    source = HostSource(machine.sys, counts_itself=False)
    source.read()
    own_s[0] += 0.25
    machine.set(busy=75, idle=25)
    assert source.read().cpu_percent == 75 - 100 * 0.25


def test_guest_time_is_counted_once(machine):
    (machine.proc / "stat").write_text("cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    machine.source.read()
    (machine.proc / "stat").write_text("cpu 50 0 0 50 0 0 0 0 50 0\ncpu0 50 0 0 50 0 0 0 0 50 0\n")
    assert machine.source.read().cpu_percent == 50.0


def test_used_cached_and_shared_memory_are_each_counted_once(machine):
    host = machine.source.read()
    assert host.memory == HostMemory(
        total_bytes=1000 * KIB,
        used_bytes=400 * KIB,
        available_bytes=600 * KIB,
        cache_bytes=330 * KIB,
        shared_bytes=120 * KIB,
    )
    assert host.swap == Space(total_bytes=200 * KIB, used_bytes=50 * KIB)


def test_missing_proc_files_print_no_warning(machine):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        psutil.swap_memory()  # there is no /proc/vmstat
        assert len(shown) == 1
        assert HostSource().read().swap == Space(total_bytes=200 * KIB, used_bytes=50 * KIB)
    assert len(shown) == 1


def test_load_and_uptime_match_the_system():
    load, uptime_s = os.getloadavg(), seconds_since_boot()
    host = HostSource().read()
    assert host.load in {load, os.getloadavg()}
    assert uptime_s <= host.uptime_s <= seconds_since_boot() + 0.01


def seconds_since_boot() -> float:
    """As the kernel says it, in whole hundredths."""
    return float(Path("/proc/uptime").read_text().split()[0])


def test_disk_and_network_bytes_are_counted_once(machine):
    machine.source.read()
    machine.time_s += 2.0
    machine.set(read=4096, written=2048, received=5000, sent=700)
    host = machine.source.read()
    assert host.disk_read_bytes_per_s == 4096 * 512 / 2
    assert host.disk_write_bytes_per_s == 2048 * 512 / 2
    assert host.network_receive_bytes_per_s == 2500
    assert host.network_send_bytes_per_s == 350


def test_a_container_counts_its_virtual_network_interface(machine):
    (machine.sys / "class/net/eth0/device").rmdir()
    machine.source.read()
    machine.time_s += 1.0
    machine.set(received=5000, sent=700)
    assert machine.source.read().network_receive_bytes_per_s == 10000  # eth0 and docker0


def test_a_counter_reset_counts_as_no_traffic(machine):
    machine.set(received=GIB)
    machine.source.read()
    machine.time_s += 1.0
    machine.set(received=0, sent=100)
    host = machine.source.read()
    assert host.network_receive_bytes_per_s == 0
    assert host.network_send_bytes_per_s == 100


def test_after_a_failed_look_the_rate_covers_the_whole_time(machine):
    machine.source.read()
    (machine.proc / "net/dev").unlink()
    machine.time_s += 1.0
    machine.source.read()
    machine.time_s += 1.0
    machine.set(received=5000)
    assert machine.source.read().network_receive_bytes_per_s == 2500


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("stat", ("cpu_percent", "core_percents")),
        ("meminfo", ("memory", "swap")),
        ("diskstats", ("disk_read_bytes_per_s", "disk_write_bytes_per_s")),
        ("net/dev", ("network_receive_bytes_per_s", "network_send_bytes_per_s")),
    ],
)
def test_an_unreadable_file_affects_only_its_own_readings(machine, file, fields):
    machine.source.read()
    (machine.proc / file).unlink()
    (machine.proc / file).mkdir()
    machine.time_s += 1.0
    host = machine.source.read()
    reason = Absent(f"{machine.proc / file}: Is a directory")
    assert {name for name in host._fields if isinstance(getattr(host, name), Absent)} == set(fields)
    assert all(getattr(host, name) == reason for name in fields)


@pytest.mark.parametrize(
    ("file", "text", "field", "reason"),
    [
        ("diskstats", "8 0 sda 1 2 3\n", "disk_read_bytes_per_s", "not sure how to interpret line"),
        ("meminfo", "MemFree: 1 kB\n", "memory", "MemTotal"),
        ("net/dev", "\n\neth0: 1 2 3\n", "network_send_bytes_per_s", "not enough values"),
    ],
)
def test_a_psutil_error_becomes_the_reason_of_the_reading(machine, file, text, field, reason):
    (machine.proc / file).write_text(text)
    absent = getattr(machine.source.read(), field)
    assert absent.reason.startswith("psutil: ")
    assert reason in absent.reason
