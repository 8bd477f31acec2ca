"""The demonstration: deterministic for a given time, plausible, and never mistaken for a real machine."""

from itertools import pairwise
from pathlib import Path

import pytest

from gputui.model.machine.process import ProcessState
from gputui.model.machine.snapshot import Attention
from gputui.model.reading import Absent
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.procfs import PID_MAX
from gputui.units import MIB

BEGIN = 1_795_000_000.0
AN_HOUR = range(0, 3600, 7)


class Clock:
    def __init__(self):
        self.now = BEGIN

    def __call__(self):
        return self.now


def read(machine):
    snapshot = machine.look(Attention(), 1.0)
    return snapshot.devices, snapshot.host, snapshot.processes


def details_of(machine, process):
    return machine.look(Attention(process=process.identity), 1.0).details


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def machine(clock):
    return DemoMachine(clock)


@pytest.fixture(scope="module")
def hour():
    """(second, devices, host, processes) every seven seconds for an hour."""
    looks, clock = [], Clock()
    machine = DemoMachine(clock)
    for second in AN_HOUR:
        clock.now = BEGIN + second
        looks.append((second, *read(machine)))
    return tuple(looks)


def test_the_same_time_always_gives_the_same_snapshot(hour):
    other = Clock()
    again = DemoMachine(other)
    for second, *look in hour[::-50]:
        other.now = BEGIN + second
        assert read(again) == tuple(look)


def test_readings_change_over_time(hour):
    figures = {tuple(device.gpu_utilization_percent for device in devices.devices) for _, devices, _, _ in hour}
    assert len(figures) > len(hour) / 2


def test_snapshots_are_marked_as_demo_and_their_processes_do_not_exist(hour):
    pids = {process.pid for _, _, _, look in hour for process in look.processes}
    assert min(pids) > PID_MAX
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert {host.hostname for _, _, host, _ in hour} == {"demo"}


def test_the_demo_has_eight_gpus_and_three_mig_instances(machine):
    devices, _, _ = read(machine)
    assert [device.index for device in devices.devices if not device.mig] == list(range(8))
    assert [device.mig.parent for device in devices.devices if device.mig] == [7, 7, 7]
    assert len({device.key for device in devices.devices}) == 11


def test_memory_adds_up_on_every_device(hour):
    for _, devices, _, _ in hour:
        held = {device.key: 0 for device in devices.devices}
        for use in devices.uses:
            held[use.device] += use.used_bytes
        for device in devices.devices:
            memory = device.memory
            assert memory.used_bytes + memory.free_bytes + memory.driver_reserved_bytes == memory.total_bytes
            assert 0 <= held[device.key] <= memory.used_bytes
            assert memory.free_bytes > 0


def test_readings_stay_within_what_a_gpu_can_do(hour):
    for _, devices, _, _ in hour:
        for device in (device for device in devices.devices if not device.mig):
            assert 25 <= device.temperature_c <= 80
            assert 60 <= device.power_w <= device.power_limit_w
            assert 300 <= device.sm_clock_mhz <= device.max_sm_clock_mhz
            if not isinstance(device.gpu_utilization_percent, Absent):
                assert 0 <= device.gpu_utilization_percent <= 100


def test_a_busy_device_draws_more_power_and_is_warmer_than_an_idle_one(machine):
    (devices, _, _) = read(machine)
    busy, idle = devices.devices[0], min(devices.devices[:7], key=lambda device: device.gpu_utilization_percent)
    assert busy.gpu_utilization_percent > 80
    assert busy.power_w > idle.power_w
    assert busy.temperature_c > idle.temperature_c


def test_one_device_is_throttled_by_its_power_limit(hour):
    capped = {
        device.index
        for _, devices, _, _ in hour
        for device in devices.devices
        if not isinstance(device.throttle_reasons, Absent) and "sw_power_cap" in device.throttle_reasons
    }
    assert capped == {2}
    held_back = next(d.devices[2] for _, d, _, _ in hour if "sw_power_cap" in d.devices[2].throttle_reasons)
    assert held_back.power_w > 0.99 * held_back.power_limit_w
    assert held_back.sm_clock_mhz < held_back.max_sm_clock_mhz - 100


def test_energy_never_decreases(hour):
    energies = [devices.devices[0].energy_j for _, devices, _, _ in hour]
    assert energies == sorted(energies)


def test_the_fine_tuning_job_takes_more_memory_step_by_step(hour):
    held = [use.used_bytes for _, devices, _, _ in hour for use in devices.uses if use.device == "GPU-4"]
    steps = [after - before for before, after in pairwise(held)]
    assert sum(step > 0 for step in steps) > 100
    assert sum(step < 0 for step in steps) <= 8  # the job restarts
    assert all(step >= 1024 * MIB for step in steps if step > 0)


def test_four_ranks_have_workers_and_one_launcher(machine):
    _, _, look = read(machine)
    ranks = [process for process in look.processes if process.rank]
    assert [process.rank.rank for process in ranks] == [0, 1, 2, 3]
    assert len({process.rank.launcher_pid for process in ranks}) == 1
    assert all(process.workers.count == 4 for process in ranks)


def test_every_run_of_a_job_is_a_new_process(hour):
    seen = [
        {process.identity: process.state for process in look.processes if "eval.py" in process.command}
        for _, _, _, look in hour
    ]
    assert {} in seen
    assert any(ProcessState.ZOMBIE in states.values() for states in seen)
    assert len({identity for states in seen for identity in states}) > 20
    assert len({identity.started for states in seen for identity in states}) > 20


def test_identities_stay_the_same_while_their_jobs_run(hour):
    first, last = hour[0][3], hour[-1][3]
    lasting = {process.identity for process in first.processes if "eval.py" not in process.command}
    assert lasting <= {process.identity for process in last.processes}
    assert len(lasting) == 9


def test_the_demo_has_unattributed_memory(machine):
    _, _, look = read(machine)
    assert {line.device for line in look.unattributed} == {"GPU-4", "GPU-7"}


def test_every_process_has_details_and_a_process_tree(machine):
    _, _, look = read(machine)
    for process in look.processes:
        details = details_of(machine, process)
        entries = {entry.identity: entry for entry in details.tree}
        assert process.identity in entries
        assert details.tree[0].depth == 0
        assert dict(details.environment)["HOSTNAME"] == "demo"
        below = [entry for entry in details.tree if entry.depth > entries[process.identity].depth]
        assert len(below) == (process.workers.count if process.workers else 0)


def test_details_of_a_job_that_ended_are_absent_in_every_field(machine, clock):
    _, _, look = read(machine)
    evaluation = next(process for process in look.processes if "eval.py" in process.command)
    clock.now += 100
    details = details_of(machine, evaluation)
    assert details.tree == ()
    rest = set(details._fields) - {"identity", "tree", "unshown_descendants"}
    assert {getattr(details, name) for name in rest} == {Absent("the process has ended")}


def test_host_readings_match_the_running_jobs(hour):
    for _, _, host, _ in hour:
        assert host.cpu_percent == pytest.approx(sum(host.core_percents) / len(host.core_percents), abs=0.1)
        memory = host.memory
        assert memory.used_bytes + memory.available_bytes == memory.total_bytes
        assert memory.shared_bytes < memory.used_bytes
        assert host.shm.used_bytes < host.shm.total_bytes
