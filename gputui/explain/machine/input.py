"""Whether a GPU waits for its input, and for which part of loading: workers, decoding, the disk, /dev/shm, copies.

Of the processes on a GPU, only the one that holds most memory is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gputui.explain.machine import thresholds
from gputui.explain.machine.record import history_owner
from gputui.explain.machine.scene import Holding, Scene, Sign, mean, place
from gputui.model.machine.device import Device
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_rate

_WORKERS = 4
"""The num_workers that is proposed to a program without workers."""


class _Feeding(NamedTuple):
    """How a program feeds its GPU, as means over a minute.

    `main_thread` is the share of the time for which the main thread runs; `running` and `on_disk` are shares of the
    workers. A thread that waits for a core counts as running, so that a host without free cores hides nothing.
    """

    busy_percent: float
    main_thread: float
    running: float
    on_disk: float
    workers: int
    host_share: float
    cores: int
    shm_share: float
    received_bytes_per_s: float
    sm_percent: float | None


class _Cause(NamedTuple):
    """For what the GPU waits, why gputui thinks so, and what to change."""

    title: str
    evidence: str
    remedy: str


def starved(scene: Scene) -> Iterator[Sign]:
    """Devices that are in use and could do more, while their program is busy preparing input for them."""
    for device in scene.devices:
        holders = scene.holdings(device)
        started = holders[0].process.identity.started if holders else None
        if started is None or scene.snapshot.time - started < thresholds.WARM_UP_S:
            continue
        busy = scene.minute(device.key, "gpu_utilization_percent")
        if not busy or not thresholds.USED_PERCENT <= mean(busy) < thresholds.STARVED_PERCENT:
            continue
        feeding = _feeding(device, mean(busy), holders[0], scene)
        cause = _cause(feeding) if feeding else None
        if cause:
            use = f"The GPU is used {mean(busy):.0f}% in the mean of a minute, between {min(busy):.0f}% and"
            yield Sign(
                place(device),
                cause.title,
                (f"{use} {max(busy):.0f}%.", cause.evidence, f"The program: {holders[0].who}."),
                cause.remedy,
                device=device.key,
                process=holders[0].process.identity,
                weight=Weight.ADVICE,
            )


def _feeding(device: Device, busy_percent: float, holding: Holding, scene: Scene) -> _Feeding | None:
    """The figures of a process, None where it has not been watched for a minute."""
    process, host = holding.process, scene.snapshot.host
    owner = history_owner(process)
    main_thread = scene.minute(owner, "main_thread_running")
    if not main_thread:
        return None
    running, disk = (scene.minute(owner, series) for series in ("workers_running", "workers_on_disk"))
    received = scene.minute(device.key, "pcie_rx_bytes_per_s")
    sms = scene.minute(device.key, "sm_active_percent")
    shm, cores = value_of(host.shm), value_of(host.core_percents)
    return _Feeding(
        busy_percent=busy_percent,
        main_thread=mean(main_thread),
        running=mean(running) if running else 0.0,
        on_disk=mean(disk) if disk else 0.0,
        workers=process.workers.count if process.workers else 0,
        host_share=(value_of(host.cpu_percent) or 0.0) / 100,
        cores=round(host.processor_limit or len(cores or ())),
        shm_share=shm.used_bytes / shm.total_bytes if shm and shm.total_bytes else 0.0,
        received_bytes_per_s=mean(received) if received else 0.0,
        sm_percent=mean(sms) if sms else None,
    )


def _cause(feeding: _Feeding) -> _Cause | None:
    return next(
        (cause for ask in (_full_shm, _disk, _decoding, _main_thread, _copies) if (cause := ask(feeding))), None
    )


def _full_shm(feeding: _Feeding) -> _Cause | None:
    if not feeding.workers or feeding.shm_share < thresholds.SHM_FULL_SHARE:
        return None
    return _Cause(
        "Waits for input: /dev/shm is full",
        f"/dev/shm is {100 * feeding.shm_share:.0f}% full, and {feeding.workers} workers hand batches over in it.",
        "Give the container more of it (docker --shm-size=16g or --ipc=host), or lower prefetch_factor or num_workers.",
    )


def _disk(feeding: _Feeding) -> _Cause | None:
    if not feeding.workers or feeding.on_disk < thresholds.MANY_WORKERS_SHARE / 2:
        return None
    return _Cause(
        "Waits for input: its loader's workers wait for the disk",
        f"Of {feeding.workers} workers, {100 * feeding.on_disk:.0f}% wait for the disk in the mean of a minute.",
        "Copy the data to a local disk, keep it in fewer and larger files (WebDataset, Parquet, LMDB), or in memory. "
        "More workers help on a network file system, and not on a disk that is busy.",
    )


def _decoding(feeding: _Feeding) -> _Cause | None:
    if not feeding.workers or feeding.running < thresholds.MANY_WORKERS_SHARE:
        return None
    evidence = f"Of {feeding.workers} workers, {100 * feeding.running:.0f}% take a whole core in the mean."
    has_cores = feeding.host_share < thresholds.FREE_CORES_SHARE and feeding.workers < feeding.cores
    if has_cores:
        more = min(2 * feeding.workers, feeding.cores)
        title = "Waits for input: its loader has too few workers"
        return _Cause(
            title,
            f"{evidence} The host's processor is used {100 * feeding.host_share:.0f}%.",
            f"Raise num_workers from {feeding.workers} to {more}; there are {feeding.cores} cores.",
        )
    return _Cause(
        "Waits for input: decoding and transforms take all cores",
        f"{evidence} There are {feeding.cores} cores, used {100 * feeding.host_share:.0f}%.",
        "Do less for each sample: store it smaller or decoded, move transforms to the GPU, or decode there (DALI, "
        "torchvision.io.decode_jpeg with device). More workers would only share the same cores.",
    )


def _main_thread(feeding: _Feeding) -> _Cause | None:
    if feeding.busy_percent >= thresholds.INEFFECTIVE_PERCENT or feeding.main_thread < thresholds.ALWAYS_SHARE:
        return None
    runs = f"Its main thread runs {100 * feeding.main_thread:.0f}% of the time"
    if not feeding.workers:
        return _Cause(
            "Waits for its program, which prepares everything in one process",
            f"{runs}, and it has no workers.",
            f"If it loads data itself, give the DataLoader num_workers={_WORKERS}. If it does not, it starts many "
            "small kernels: a larger batch or torch.compile makes them fewer. a on the process shows what it does.",
        )
    return _Cause(
        "Waits for its program's main thread, not for its workers",
        f"{runs}, each of its {feeding.workers} workers {100 * feeding.running:.0f}%.",
        "Move work out of the loop: decode and transform in the Dataset, collate in collate_fn, call .item() and log "
        "seldom. If that is done, it starts many small kernels: a larger batch or torch.compile makes them fewer.",
    )


def _copies(feeding: _Feeding) -> _Cause | None:
    is_low = feeding.sm_percent is not None and feeding.sm_percent < thresholds.COPYING_SM_PERCENT
    if feeding.received_bytes_per_s < thresholds.COPYING_BYTES_PER_S or not is_low:
        return None
    return _Cause(
        "Waits for input: copies to the GPU take its time",
        f"It receives {format_rate(feeding.received_bytes_per_s)} over PCIe, and {feeding.sm_percent:.0f}% of its SMs "
        "are active.",
        "Give the DataLoader pin_memory=True and copy with .to(device, non_blocking=True); copy smaller types (uint8 "
        "images), and convert them on the GPU.",
    )
