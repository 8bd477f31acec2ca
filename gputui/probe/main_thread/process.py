"""The process that the probe runs in: PyTorch, rank, devices. Reading them imports and initialises nothing."""

from __future__ import annotations

import os
import sys
from types import FrameType, ModuleType

from gputui.probe.guards.descriptors import read_file
from gputui.probe.guards.thread_frames import current_frames
from gputui.probe.guards.thread_numbers import main_ident
from gputui.probe.objects import plain
from gputui.protocol.libraries import LIBRARIES

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
MAX_COMMAND = 4096


def is_rank() -> bool:
    """Whether this is one of several processes of a job."""
    world_size = _number(_WORLD_SIZE)
    return _number(_RANK) is not None and world_size is not None and world_size > 1


def loaded_torch() -> ModuleType | None:
    """PyTorch, once the program has completely imported it."""
    torch = sys.modules.get("torch")
    is_unfinished = getattr(getattr(torch, "__spec__", None), "_initializing", False)
    return None if torch is None or is_unfinished or not hasattr(torch, "_C") else torch


def has_cuda(torch: ModuleType | None) -> bool:
    """Whether the program has initialised CUDA in this very process (and not in the one it was forked from)."""
    return torch is not None and bool(torch.cuda.is_initialized()) and not torch.cuda._is_in_bad_fork()


def greeting(actions: list[str]) -> dict[str, object]:
    """The fields of `model.attached.target.Greeting`; `actions` are the names of those that viewers may ask for."""
    torch = loaded_torch()
    return {
        "pid": os.getpid(),
        "command": _command(),
        "python": sys.version.split()[0],
        "torch": str(getattr(torch, "__version__", "")),
        "rank": _number(_RANK) if is_rank() else None,
        "world_size": _number(_WORLD_SIZE) if is_rank() else None,
        "is_cuda_initialized": has_cuda(torch),
        "devices": _devices(torch),
        "actions": actions,
        "collectives": _collectives(),
        "libraries": [name for name in LIBRARIES if name in sys.modules],
    }


def main_thread_location() -> str:
    """Where the main thread is now: "train.py:23 in step"; "" if that is not known."""
    frame = main_thread_frame()
    if frame is None:
        return ""
    path, name = plain.text(frame.f_code.co_filename), plain.text(frame.f_code.co_name)
    return f"{os.path.basename(path)}:{frame.f_lineno} in {name}"


def main_thread_frame() -> FrameType | None:
    """The innermost Python frame of the main thread; None while its number is not known."""
    ident = main_ident()
    return None if ident is None else current_frames().get(ident)


def _devices(torch: ModuleType | None) -> list[dict[str, object]]:
    if torch is None or not has_cuda(torch):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    entries = [entry.strip() for entry in visible.split(",")] if visible else []
    devices: list[dict[str, object]] = []
    for index in range(torch._C._cuda_getDeviceCount()):
        properties = torch.cuda._get_device_properties(index)
        entry = entries[index] if index < len(entries) else ""
        devices.append({"index": index, "uuid": _uuid(properties, entry), "visible_as": entry})
    return devices


def _uuid(properties: object, entry: str) -> str:
    if entry.startswith("MIG-"):
        return entry  # PyTorch's properties have the UUID of the whole GPU, not of its MIG instance
    uuid = str(getattr(properties, "uuid", ""))  # PyTorch 2.5 and newer
    return f"GPU-{uuid}" if uuid.strip("0-") else ""  # "" or zeros: the driver does not report it


def _collectives() -> str:
    """The backend of the default process group: "nccl", or "cpu:gloo,cuda:nccl"; "" before there is one."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return ""
        return str(distributed.get_backend())
    except (AttributeError, RuntimeError, ValueError):  # a group that is being made or destroyed
        return ""


def _number(names: tuple[str, ...]) -> int | None:
    value = next((os.environ[name] for name in names if name in os.environ), "")
    return int(value) if value.isdecimal() else None


def _command() -> str:
    try:
        words = [os.fsdecode(word) for word in read_file("/proc/self/cmdline").rstrip(b"\0").split(b"\0")]
    except OSError:  # the program has no descriptor left at this moment, or there is no /proc
        words = list(filter(None, map(plain.name_of, getattr(sys, "argv", ()))))
    return " ".join(words).encode("utf-8", "replace").decode()[:MAX_COMMAND]
