"""Devices, processes and snapshots for tests, the same on every run."""

from __future__ import annotations

from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse, Driver, MigMode, MigPlace, PcieLink
from gputui.model.machine.host import Host, HostMemory, Space
from gputui.model.machine.process import (
    Identity,
    Process,
    ProcessDetails,
    ProcessLook,
    ProcessState,
    Rank,
    TreeEntry,
    Unattributed,
    Workers,
)
from gputui.model.machine.profile_readings import PROFILED
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, AbsentKind
from gputui.sources.processes.details import without_process
from gputui.sources.procfs import ENDED
from gputui.units import GIB, MIB

NOW = 1_763_640_000.0
"""20 November 2025, 12:00:00 UTC."""

UNSUPPORTED = Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)


def device(index: int = 0, **changes) -> Device:
    """A busy GPU; `changes` replace readings."""
    used = (10 + 8 * index % 70) * GIB
    readings = {
        "index": index,
        "uuid": f"GPU-{index:08d}",
        "name": "NVIDIA H100 80GB HBM3",
        "bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "memory": DeviceMemory(80 * GIB, used, 79 * GIB - used, GIB),
        "gpu_utilization_percent": 90 - 9 * index % 80,
        "memory_utilization_percent": 40,
        **dict.fromkeys(PROFILED, UNSUPPORTED),
        "temperature_c": 50 + 4 * index,
        "slowdown_temperature_c": 89,
        "shutdown_temperature_c": 92,
        "fan_percent": UNSUPPORTED,
        "power_w": 400.0 + index,
        "power_limit_w": 700.0,
        "energy_j": 7_200_000.0,
        "sm_clock_mhz": 1755,
        "max_sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "max_memory_clock_mhz": 2619,
        "pstate": "P0",
        "throttle_reasons": ("sw_power_cap",) if index == 2 else (),
        "pcie": PcieLink(5, 16, 5, 16),
        "pcie_rx_bytes_per_s": 300 * MIB,
        "pcie_tx_bytes_per_s": 20 * MIB,
        "ecc_uncorrected": 0,
        "ecc_corrected": 0,
        "mig_mode": MigMode(is_enabled=False, is_enabled_after_reset=False),
        "architecture": "Hopper",
    }
    return Device(**{**readings, **changes})


PROFILE = {
    "sm_active_percent": 89.0,
    "sm_occupancy_percent": 35.0,
    "tensor_percent": 38.0,
    "dram_percent": 41.0,
    "fp64_percent": 0.0,
    "fp32_percent": 3.0,
    "fp16_percent": 0.1,
    "integer_percent": 16.0,
    "profile_source": "gpm",
}
"""True utilisation of a GPU that trains."""


def devices(count: int) -> tuple[Device, ...]:
    """`count` busy GPUs."""
    return tuple(device(index) for index in range(count))


def instances(parent: int, count: int) -> tuple[Device, ...]:
    """MIG instances of GPU `parent`; they report memory, but no temperature, power or utilisation."""
    of_parent = Absent("read on the GPU, not on its MIG instances")
    return tuple(
        device(
            parent,
            uuid=f"MIG-{parent}-{place}",
            name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            mig=MigPlace(parent, place, 0),
            memory=DeviceMemory(10 * GIB, place * GIB, (10 - place) * GIB, 0),
            gpu_utilization_percent=of_parent,
            temperature_c=of_parent,
            power_w=of_parent,
            power_limit_w=of_parent,
            pstate=of_parent,
            throttle_reasons=of_parent,
        )
        for place in range(1, count + 1)
    )


def use(index: int = 0, pid: int = 1000, gib: float = 8.0, **changes) -> DeviceUse:
    """The use of GPU `index` by a process."""
    readings = {"device": f"GPU-{index:08d}", "pid": pid, "kind": "C", "used_bytes": int(gib * GIB), "sm_percent": 50}
    return DeviceUse(**{**readings, **changes})


def process(pid: int = 1000, index: int = 0, gib: float = 8.0, **changes) -> Process:
    """A training process on GPU `index`."""
    readings = {
        "identity": Identity(pid, NOW - 3600.0),
        "state": ProcessState.RUNNING,
        "uses": (use(index, pid, gib),),
        "parent_pid": 1,
        "user": "ana",
        "command": f"python train.py --seed {pid}",
        "cpu_percent": 99.0,
        "rss_bytes": 3 * GIB,
    }
    return Process(**{**readings, **changes})


def job(launcher: int, ranks: int) -> tuple[Process, ...]:
    """The ranks of a torchrun job, each with two workers."""
    return tuple(
        process(
            launcher + 10 * (1 + number),
            number,
            20.0,
            rank=Rank(number, ranks, number, launcher),
            workers=Workers(2, 60.0, 2 * GIB, is_proportional=True),
            command="python train.py --config gpt.yaml",
            has_probe=number == 0,
        )
        for number in range(ranks)
    )


HOST = Host(
    hostname="node7",
    cpu_percent=37.0,
    core_percents=(90.0, 80.0, 10.0, 0.0),
    load=(3.2, 2.1, 1.0),
    memory=HostMemory(512 * GIB, 200 * GIB, 312 * GIB, 100 * GIB, 12 * GIB),
    swap=Space(8 * GIB, GIB),
    shm=Space(256 * GIB, 12 * GIB),
    disk_read_bytes_per_s=210.0 * MIB,
    disk_write_bytes_per_s=3.0 * MIB,
    network_receive_bytes_per_s=1.5 * MIB,
    network_send_bytes_per_s=0.5 * MIB,
    uptime_s=3 * 86400.0,
)

DRIVER = Driver("580.95.05", "13.0")

PROBLEM = "The NVIDIA driver is not loaded. Load it with: sudo modprobe nvidia"


def snapshot(
    boards: tuple[Device, ...] = (), processes: tuple[Process, ...] = (), *, number: int = 1, **changes
) -> Snapshot:
    """A snapshot of a machine with these devices and processes."""
    uses = tuple(one for entry in processes for one in entry.uses)
    readings = {
        "time": NOW + number,
        "number": number,
        "devices": DeviceLook(DRIVER, boards, uses),
        "host": HOST,
        "processes": ProcessLook(processes, changes.pop("unattributed", ())),
    }
    return Snapshot(**{**readings, **changes})


def node(number: int = 1, **changes) -> Snapshot:
    """A busy node: eight GPUs, a job of four ranks, a server, a notebook, a zombie, and unattributed memory."""
    others = (
        process(
            3000,
            4,
            60.0,
            user="llm",
            command="python -m vllm.entrypoints.openai.api_server --port 8000",
            cpu_percent=34.0,
        ),
        process(
            3100,
            5,
            3.0,
            user="carla",
            command="python -m ipykernel_launcher -f kernel.json",
            state=ProcessState.SLEEPING,
            cpu_percent=0.0,
            uses=(use(5, 3100, 3.0), use(6, 3100, 1.0, sm_percent=0)),
        ),
        process(
            3200,
            6,
            2.0,
            identity=Identity(3200, None),
            state=ProcessState.ZOMBIE,
            command=Absent("the process has ended"),
            user=Absent("the process has ended"),
            cpu_percent=Absent("the process has ended"),
            rss_bytes=Absent("the process has ended"),
        ),
    )
    rest = (Unattributed("GPU-00000007", 2 * GIB, "a process in another container"),)
    return snapshot(devices(8), (*job(2000, 4), *others), number=number, unattributed=rest, **changes)


def no_details(identity: Identity) -> ProcessDetails:
    """The details of a process that has ended."""
    return without_process(identity, ENDED)


def details(identity: Identity) -> ProcessDetails:
    """The details of a process that is shown on the process screen."""
    launcher = Identity(2000, NOW - 4000.0)
    return ProcessDetails(
        identity=identity,
        tree=(
            TreeEntry(launcher, 0, ProcessState.SLEEPING, "torchrun train.py", 0.1, 200 * MIB, 9),
            TreeEntry(identity, 1, ProcessState.RUNNING, "python train.py", 99.0, 3 * GIB, 40),
        ),
        environment=(("CUDA_VISIBLE_DEVICES", "0,1"), ("RANK", "0"), ("WORLD_SIZE", "4")),
        working_directory="/home/ana/work",
        executable="/usr/bin/python3",
        command_line=("python", "train.py", "--config", "gpt.yaml"),
        waiting_for="nothing: it runs",
        threads=40,
        open_files=60,
        pss_bytes=3 * GIB,
        shared_bytes=100 * MIB,
        swap_bytes=0,
        read_bytes_per_s=42.0 * MIB,
        write_bytes_per_s=0.0,
    )


def without_device(scene: Snapshot, index: int, *, number: int) -> Snapshot:
    """The next snapshot, in which device `index` is gone."""
    left = tuple(board for board in scene.devices.devices if board.index != index)
    return scene._replace(number=number, time=NOW + number, devices=scene.devices._replace(devices=left))
