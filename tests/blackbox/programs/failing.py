"""A training that runs out of memory:  failing.py CASE  (where in the step it happens; see `CASES` at the end)."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

import torch

import gputui.probe  # noqa: F401 - it keeps black boxes where the environment says so

torch.set_num_threads(1)
if "GPUTUI_BLACK_BOX" in os.environ:  # what is tested is not how fast a busy machine is
    from gputui.probe.black_box import error_look, observer

    observer.STOP_S, observer.ALWAYS_S, error_look.READING_MS = 30.0, 120.0, 20_000.0
MIB = 1 << 20
hog = []


def say(*words: object) -> None:
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def fill(leave_mib: int) -> None:
    """Take the device's memory but for so much."""
    free_bytes = torch.cuda.mem_get_info()[0]
    hog.append(torch.empty(free_bytes - leave_mib * MIB, dtype=torch.uint8, device="cuda"))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4096, 4096) for _ in range(8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))  # fails here: forward
        return x


def new_net() -> Net:
    """Made on the device, as random numbers of the host take seconds."""
    with torch.device("cuda"):
        return Net()


class Training:
    def __init__(self) -> None:
        self.model = new_net()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, rows: int, *, fill_before: str = "") -> None:
        loss = self.model(torch.ones(rows, 4096, device="cuda")).sum()
        if fill_before == "backward":
            fill(30)
        loss.backward()  # fails here: backward
        if fill_before == "optimizer":
            fill(30)
        self.optimizer.step()  # fails here: optimizer
        self.optimizer.zero_grad()


def forward() -> None:
    Training().step(16384)


def limit() -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    Training().step(16384)


def backward() -> None:
    Training().step(64, fill_before="backward")


def optimizer() -> None:
    Training().step(64, fill_before="optimizer")


def reraised() -> None:
    try:
        forward()
    except RuntimeError as error:
        raise ValueError("training failed") from error


class Batch:
    """Goes to the device when the loader pins it."""

    def __init__(self, rows: list[torch.Tensor]) -> None:
        self.rows = torch.stack(rows)

    def pin_memory(self) -> Batch:
        self.on_device = torch.empty(1 << 32, device="cuda")  # fails here: pinning
        return self


def pinning() -> None:
    """A batch that goes to the device when the loader pins it."""
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    loader = torch.utils.data.DataLoader(torch.zeros(8, 8), 4, collate_fn=Batch, pin_memory=True)
    for batch in loader:
        say(len(batch.rows), held.shape)


def capture() -> None:
    training = Training()
    rows = torch.ones(1024, 4096, device="cuda")
    kept = []
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            while True:
                kept.append(training.model(rows))  # fails here: capture
    except torch.cuda.OutOfMemoryError as error:
        say(str(error).partition(". GPU")[0])
        kept.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = training.model(rows)
    graph.replay()
    say("captured", tuple(result.shape))


def finder() -> None:
    """Looks for the largest batch by trial."""
    model, rows = new_net(), 1 << 22
    errors = 0
    while True:
        try:
            with torch.no_grad():
                model(torch.ones(rows, 4096, device="cuda"))  # fails here: finder
            break
        except torch.cuda.OutOfMemoryError:
            errors += 1
            rows //= 2
    say("errors", errors)


def assigned() -> None:
    """The case of the field: `b` goes to the host, `c` is assigned twice."""
    a = torch.ones(1 << 28, device="cuda")
    b = a.cpu()
    c = torch.ones(1 << 28, device="cuda")
    say(b.shape)
    del a
    a = torch.ones(1 << 28, device="cuda")
    c = torch.ones(1 << 28, device="cuda")  # fails here: assigned
    del a, b, c


def many() -> None:
    """More tensors in a list than one search visits, and a model to which no variable leads."""
    hidden = new_net()
    hog.extend(torch.empty(64 << 10, dtype=torch.uint8, device="cuda") for _ in range(6000))
    weights = hidden.register_forward_hook(lambda *_: None)
    box = iter([hidden])
    del hidden
    torch.empty(1 << 34, device="cuda")  # fails here: many
    say(next(box), weights)


def compiled() -> None:
    """An error inside a compiled function."""
    training = Training()
    run = torch.compile(training.model, backend="eager")
    run(torch.ones(16, 4096, device="cuda"))
    frames = dict(torch._dynamo.utils.counters["frames"])
    try:
        run(torch.ones(16384, 4096, device="cuda"))
        run(torch.ones(65536, 4096, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        say("compiled", sum(torch._dynamo.utils.counters["frames"].values()) - sum(frames.values()))


def threads() -> None:
    """Many threads run out at once."""
    caught = []

    def ask() -> None:
        with suppress(torch.cuda.OutOfMemoryError):
            torch.empty(1 << 34, device="cuda")
            return
        caught.append(1)

    def ask_often() -> None:
        for _ in range(20):
            ask()

    torch.zeros(1).cuda()
    asking = [threading.Thread(target=ask_often) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    say("caught", len(caught))


def thread() -> None:
    """A training in a thread, which ends by the error."""

    def train() -> None:
        Training().step(16384)  # fails here: thread

    worker = threading.Thread(target=train, name="trainer")
    worker.start()
    worker.join()
    say("the program goes on")


def speechless() -> None:
    """The same in a program in which the line after the traceback cannot be made."""
    sys.modules["shlex"] = None  # type: ignore[assignment]
    thread()


def pinned() -> None:
    """Pinned host memory, which PyTorch's own allocator has no observer for."""
    weights = torch.ones(1 << 28, device="cuda")
    page_locked = torch.empty(96 << 20, dtype=torch.uint8, pin_memory=True)
    rows = torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True)  # fails here: pinned
    say(weights.shape, page_locked.shape, rows.shape)


class LargeBatch:
    """More than the system can lock in memory."""

    def pin_memory(self) -> torch.Tensor:
        return torch.empty(1 << 50, dtype=torch.uint8, pin_memory=True)


def loader() -> None:
    """The thread of a DataLoader cannot pin a batch."""
    held = torch.ones(1 << 28, device="cuda")
    batches = torch.utils.data.DataLoader([0], collate_fn=lambda _: LargeBatch(), pin_memory=True)
    for batch in batches:  # fails here: loader
        say(held.shape, batch.shape)


def cublas() -> None:
    """cuBLAS gets no memory for its handle."""
    left = torch.ones(1 << 26, device="cuda").view(8192, 8192)
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")  # goes to PyTorch's cache
    os.environ["FAKEGPU_NO_CUBLAS"] = "1"
    left @ left  # fails here: cublas


def nccl() -> None:
    """What PyTorch raises when NCCL finds no memory (pytorch/torchtitan#660)."""
    held = torch.ones(1 << 26, device="cuda")

    def barrier() -> None:
        text = "NCCL error in: NCCLUtils.hpp:340, unhandled cuda error (run with NCCL_DEBUG=INFO for details)\n"
        text += "ncclUnhandledCudaError: Call to CUDA function failed.\n"
        text += "Last error:\nFailed to CUDA calloc 8388608 bytes"
        raise torch.distributed.DistBackendError(text)  # fails here: nccl

    try:
        barrier()
    except RuntimeError as error:
        raise SystemError(str(held.shape)) from error


def another() -> None:
    """An error that has nothing to do with memory."""
    held = torch.ones(1 << 26, device="cuda")
    raise RuntimeError("CUDA error: an illegal memory access was encountered", held.shape)


CASES = {
    case.__name__: case
    for case in (
        forward, limit, backward, optimizer, reraised, pinning, capture, finder, assigned, many, compiled, thread,
        threads, speechless, pinned, loader, cublas, nccl, another,
    )
}  # fmt: skip
CASES[sys.argv[1]]()
