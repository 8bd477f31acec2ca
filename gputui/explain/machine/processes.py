"""Processes that should not be where they are: orphans, contexts on another rank's device, memory without a process."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.explain.machine import thresholds
from gputui.explain.machine.scene import Holding, Scene, Sign, place
from gputui.model.machine.device import CONTEXT_BYTES
from gputui.model.machine.process import Process, ProcessState
from gputui.model.machine.secrets import mask_command
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_duration

_SERVICE = ".service"


def orphans(scene: Scene) -> Iterator[Sign]:
    """Processes that hold memory and compute nothing, and whose launcher has ended; services are left out."""
    for process in scene.snapshot.processes.processes:
        owner = value_of(process.owner)
        is_service = owner is None or (owner.unit or "").endswith(_SERVICE)
        if not process.is_orphan or is_service or process.state is ProcessState.ZOMBIE:
            continue
        held_bytes = sum(value_of(use.used_bytes) or 0 for use in process.uses)
        if held_bytes < thresholds.HELD_BYTES or any(value_of(use.sm_percent) for use in process.uses):
            continue
        started = process.identity.started
        age = f"It was started {format_duration(scene.snapshot.time - started)} ago, and u" if started else "U"
        devices = [device for device in scene.devices if any(use.device == device.key for use in process.uses)]
        yield Sign(
            " ".join(map(place, devices[:1])) or "host",
            f"An orphan holds {format_bytes(held_bytes)}: {Holding(process, process.uses[0]).who}",
            (
                "What started it has ended, and init has taken it over.",
                f"{age}ses the GPU 0%.",
                f"Command: {mask_command(value_of(process.command) or 'not known')}",
            ),
            "T on the process asks it to end, K ends it at once.",
            device=devices[0].key if devices else "",
            process=process.identity,
        )


def unaccounted(scene: Scene) -> Iterator[Sign]:
    """Memory of a device that belongs to no process, beyond what a driver, a display or MIG keeps."""
    devices = {device.key: device for device in scene.devices}
    for part in scene.snapshot.processes.unattributed:
        device = devices.get(part.device)
        if part.is_usual or device is None or part.used_bytes < thresholds.UNACCOUNTED_BYTES:
            continue
        yield Sign(
            place(device),
            f"{format_bytes(part.used_bytes)} in use that no process accounts for",
            (f"The likely cause: {part.cause}.",),
            "Look for programs in other containers and of other users: sudo fuser -v /dev/nvidia* names them. If there "
            "are none, reset the GPU when it is free (nvidia-smi --gpu-reset).",
            device=device.key,
            weight=Weight.ADVICE,
        )


def foreign_contexts(scene: Scene) -> Iterator[Sign]:
    """Ranks that hold a CUDA context on the device of another rank of their job."""
    ranks = [process for process in scene.snapshot.processes.processes if process.rank and process.uses]
    homes = {(process.rank.launcher_pid, _home(process)): process for process in ranks if process.rank}
    devices = {device.key: device for device in scene.devices}
    for process in ranks:
        home = _home(process)
        for use in process.uses:
            held_bytes = value_of(use.used_bytes) or 0
            other = homes.get((process.rank.launcher_pid if process.rank else None, use.device))
            if use.device == home or not other or held_bytes >= CONTEXT_BYTES or use.device not in devices:
                continue
            rank, other_rank = (each.rank.rank if each.rank else 0 for each in (process, other))
            yield Sign(
                place(devices[use.device]),
                f"Rank {rank} has a context on the device of rank {other_rank}: {format_bytes(held_bytes)}",
                (f"PID {process.pid} has its own memory on another device.",),
                "Call torch.cuda.set_device(local_rank) before anything else touches CUDA, and load checkpoints with "
                'map_location="cpu".',
                device=use.device,
                process=process.identity,
                weight=Weight.ADVICE,
            )


def _home(process: Process) -> str:
    """The device on which a process holds most."""
    return max(process.uses, key=lambda use: value_of(use.used_bytes) or 0).device
