"""A training job for the attach screens: eight ranks of a small GPT that keeps its features, after two minutes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gputui.model.attached.moment import HostMoment, TargetMoment
from gputui.model.attached.target import Greeting, Mark, TorchDevice
from gputui.model.attached.tensors import HOST, Category, Storage
from gputui.model.attached.trace import RecordedTraces
from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, Driver
from gputui.model.machine.host import Host
from gputui.model.machine.snapshot import Snapshot
from gputui.units import GIB, MIB
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row
from tests.explain.named import named
from tests.explain.traces import Recording

NOW = 1_795_176_000.0
SECONDS = 120
RANKS = 8
ODD_RANK = 5
LAYERS = 6
PARTS = {"qkv": 12.0, "proj": 4.0, "fc1": 16.0, "fc2": 16.0}

KINDS = {
    "model.layers.{}.{}.weight": Category.PARAMETER,
    "model.layers.{}.{}.weight.grad": Category.GRADIENT,
    "optimizer.state[model.layers.{}.{}.weight].exp_avg": Category.OPTIMIZER_STATE,
    "optimizer.state[model.layers.{}.{}.weight].exp_avg_sq": Category.OPTIMIZER_STATE,
}


def _segments(*, is_later: bool) -> list:
    """Packed parameters and optimizer states, activations with gaps, and features that hold large segments."""
    segments, address = [], 1 << 40

    def add(*tensors: Tensor, free: float = 0.0) -> None:
        nonlocal address
        segments.append(row(*tensors, free=free, address=address))
        address += GIB

    for name, category in KINDS.items():
        for layer in range(LAYERS):
            add(*(Tensor(mib, name.format(layer, part), category) for part, mib in PARTS.items()))
    for layer in range(LAYERS):
        saved = Tensor(32, f"layers.{layer}.mlp (train.py:41 in forward)", saved_by="GeluBackward0")
        add(saved, Tensor(8, f"layers.{layer}.attention (train.py:38 in forward)", saved_by="ViewBackward0"), free=24)
    add(Tensor(32, "the cuBLAS workspace", Category.WORKSPACE))
    add(Tensor(1.5, "loss (train.py:70)"), Tensor(3, ""), free=15.5)
    small = ("live", 0.25), ("free", 0.5), ("live", 0.25), ("free", 1)
    segments.append(segment(*small, address=address + 64 * GIB, is_small=True))
    for number in range(4 + 2 * is_later):
        add(Tensor(4, f"model.features[{number}] (train.py:52 in forward)"), free=60)
    segments.append(segment(("free", 64), address=address))
    return segments


MARKS = (Mark(NOW - 60.5, "after warm-up"), Mark(NOW - 1.5, "after forward"))
HOST_STORAGES = (
    Storage(HOST, 4096, 24 * MIB, Category.OTHER, named("batch (train.py:66)"), "Tensor", (24, 1024, 256), "float32"),
)


@cache
def story(rank: int = 0) -> tuple[TargetMoment, ...]:
    """A rank's moments, one per second, oldest first; all but the last 20 s share the look of one minute ago."""
    odd = (row(Tensor(640, "cache (train.py:12)"), address=1 << 45),) if rank == ODD_RANK else ()
    looks = [
        moment(
            *_segments(is_later=is_later), *odd, time=NOW - (1.0 if is_later else 60.0), used_mib=4096,
            others_mib=1024, world_size=RANKS, num_alloc_retries=int(is_later),
        )
        for is_later in (False, True)
    ]  # fmt: skip
    return tuple(_at(looks, rank, number) for number in range(SECONDS + 1))


def _at(looks: list[TargetMoment], rank: int, number: int) -> TargetMoment:
    """The moment at second `number`: activations repeat every eight seconds, and the features grow."""
    now = NOW - SECONDS + number
    look = looks[number > SECONDS - 20]
    (device,) = look.devices
    full = device.statistics
    missing = (7 - number % 8) * 40 * MIB + (SECONDS - number) * MIB
    counted = replace(
        full,
        allocated_bytes=full.allocated_bytes - missing,
        active_bytes=full.active_bytes - missing // 2,
        requested_bytes=full.requested_bytes - missing,
        reserved_bytes=full.reserved_bytes - (SECONDS - number) // 30 * 128 * MIB,
        peak_active_bytes=full.allocated_bytes + 200 * MIB,
        peak_allocated_bytes=full.allocated_bytes + 200 * MIB,
        num_alloc_retries=int(number > 100),
    )
    return replace(
        look,
        time=now,
        greeting=Greeting(
            4100 + rank, "python train.py --config gpt-small.yaml", "3.12.3", "2.11.0", rank, RANKS, True,
            (TorchDevice(0, f"GPU-{rank}"),),
        ),
        devices=(
            replace(
                device, uuid=f"GPU-{rank}", statistics=full if number == SECONDS else counted,
                driver=replace(device.driver, utilization_percent=97 - rank),
            ),
        ),
        host=HostMoment(5 * GIB, 64 * MIB, 24 * MIB, HOST_STORAGES),
        marks=tuple(mark for mark in MARKS if mark.time < now),
    )  # fmt: skip


def job() -> list[TargetMoment]:
    """Two minutes of rank 0, which has recorded a step, and the newest moment of every other rank."""
    *earlier, newest = story()
    return [*earlier, replace(newest, recorded=recorded()), *(story(rank)[-1] for rank in range(1, RANKS))]


@cache
def recorded() -> RecordedTraces:
    """Four steps, each of which keeps a tensor until the next has ended."""
    recording = Recording()
    for name in ("model.layers.0.fc1.weight", "model.layers.0.fc2.weight"):
        recording.name(recording.alloc(64, "forward"), name, Category.PARAMETER)
    for _ in range(4):
        recording.step(activations=(24, 48, 24, 12, 12, 24), gradients=4, kept_mib=16)
    return recording.recorded()


def machine() -> Snapshot:
    """The node that the ranks run on."""
    devices = tuple(
        Device(
            rank, f"GPU-{rank}", "NVIDIA H100 80GB HBM3", "",
            memory=DeviceMemory(80 * GIB, 5 * GIB, 75 * GIB, 0), gpu_utilization_percent=97 - rank,
        )
        for rank in range(RANKS)
    )  # fmt: skip
    return Snapshot(
        time=NOW, number=1, host=Host(hostname="node7"), devices=DeviceLook(Driver("580.95.05", "13.0"), devices)
    )
