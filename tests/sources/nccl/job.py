"""A job of ranks that answer as NCCL does, and NCCL's answers as its users' guide shows them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.sources.children import Child, running

PROGRAM = (Path(__file__).resolve().parent / "programs" / "rank.py").read_text()
HERE = "127.0.0.1"
KINDS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")

Document = dict[str, Any]


def rank(number: int, pid: int, host: str = HERE, init_state: int = 0, error: int = 0, **counts: int) -> Document:
    """A rank that has answered, with its `counts` of collectives."""
    return {
        "rank": number,
        "host": host,
        "pid": pid,
        "cuda_dev": number % 8,
        "nvml_dev": number % 8,
        "status": {
            "init_state": init_state,
            "async_error": error,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        },
        "collective_counts": {kind: counts.get(kind, 0) for kind in KINDS},
    }


def missing(number: int, pid: int, host: str = HERE, *, is_dead: bool = False) -> Document:
    """A rank that has not answered."""
    place = {"rank": number, "host": host, "pid": pid, "cuda_dev": number % 8, "nvml_dev": number % 8}
    return {**place, "status": {"unresponsive": True, "considered_dead": is_dead}}


def communicator(*ranks: Document, gone: tuple[Document, ...] = (), name: str = "0xae94423cfbb2ef4a") -> Document:
    return {
        "hash": name,
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": len(ranks) + len(gone),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(gone),
        "ranks": list(ranks),
        "missing_ranks": list(gone),
    }


def answer(*communicators: Document, timeouts: int = 0, version: str = "2.29.3") -> bytes:
    """As NCCL prints it: one document."""
    document = {
        "nccl_version": version,
        "cuda_runtime_version": 13000,
        "cuda_driver_version": 13000,
        "timestamp": "2026-11-27 13:06:53",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": timeouts},
    }
    return json.dumps(document, indent=2).encode()


class Job:
    """The ranks that run here, by their PIDs, and the answers that they will give."""

    def __init__(self, folder: Path, port: int, size: int) -> None:
        self.pids: list[int] = []
        self._folder, self._port, self._size = folder, port, size
        self._answers = folder / "answers"
        self._answers.mkdir()

    def beside(self, version: str, *wrapper: str) -> AbstractContextManager[Child]:
        """Another process on its port, with this version of NCCL, started by the words of `wrapper`."""
        arguments = (str(library(self._folder, version)), str(self._port), str(self._answers))
        environment = {"NCCL_RAS_ADDR": f"localhost:{self._port}", "WORLD_SIZE": str(self._size)}
        return running(PROGRAM, *arguments, wrapper=wrapper, **environment, RANK=str(len(self.pids)))

    def answers(self, *answers: bytes) -> None:
        """What the next questions get; the last answer is given to all further ones, too."""
        for number, one in enumerate(answers, 1):
            (self._answers / str(number)).write_bytes(one)

    @property
    def questions(self) -> int:
        """How many questions there were."""
        return len(list(self._answers.glob("asked-*")))


def library(folder: Path, version: str) -> Path:
    """A file of the name of NCCL's library, with what it says of itself."""
    path = folder / f"nccl-{version}" / "libnccl.so.2"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(b"\x7fELF" + bytes(1 << 20) + f"\0NCCL version {version}+cuda13.0\0".encode())
    return path


@contextmanager
def job(folder: Path, ranks: int = 2, version: str = "2.29.3") -> Iterator[Job]:
    """A job of this many processes on a port of its own, which they share."""
    with ExitStack() as stack, socket.socket() as kept:  # it keeps the port free for them, and does not listen
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind((HERE, 0))
        made = Job(folder, kept.getsockname()[1], ranks)
        for _ in range(ranks):
            made.pids.append(stack.enter_context(made.beside(version)).pid)
        yield made
