"""Makes the snapshots in this folder: python make.py NAME FILE, with a CUDA build of PyTorch on fake GPUs.

history     two steps of a small model, with memory history and Python stacks
native      the same with the stacks of C++
state       the same without a trace
plain       the same without memory history
field       1 GiB of `a`, `b` on the CPU, `c` assigned twice, `del`
mean        3 GiB of `x`, `y = 5 * x`, `y.mean().backward()`
failure     a request that is too large
"""

import contextlib
import pickle
import sys
from pathlib import Path

import torch

GIB = 1024**3


def train():
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(2)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        loss = model(torch.randn(16, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def field():
    a = torch.zeros(GIB // 4, device="cuda")
    b = torch.empty(1)  # the fake GPU has nothing to copy
    c = torch.ones(GIB // 4, device="cuda")
    c = torch.ones(GIB // 2, device="cuda")
    del a
    return b, c


def mean():
    x = torch.ones(3 * GIB // 4, device="cuda", requires_grad=True)
    y = 5 * x
    y.mean().backward()
    return x, y


def failure():
    kept = [torch.ones(GIB // 4, device="cuda") for _ in range(3)]
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        torch.empty(1024 * GIB, device="cuda")
    return kept


def record(**options):
    options = {"stacks": "python", **options}
    if options.pop("enabled", "all") == "state":
        torch.cuda.memory._record_memory_history("state", **options)
    else:
        torch.cuda.memory._record_memory_history(**options)


RECORDED = {"history": {}, "native": {"stacks": "all"}, "state": {"enabled": "state"}, "field": {}, "mean": {}}
RECORDED["failure"] = {}
PROGRAMS = {"field": field, "mean": mean, "failure": failure}


def main(name, path):
    torch.cuda.init()
    if name in RECORDED:
        record(**RECORDED[name])
    kept = PROGRAMS.get(name, train)()
    if name == "plain":
        Path(path).write_bytes(pickle.dumps(torch.cuda.memory._snapshot()))
    else:
        torch.cuda.memory._dump_snapshot(path)
    data = Path(path).read_bytes()
    Path(path).write_bytes(pickle.dumps(with_other_folders(pickle.loads(data), set()), protocol=data[1]))
    return kept


def with_other_folders(value, seen):
    """The same with the folders of somebody's home: those of this machine are nobody's business."""
    if isinstance(value, str):
        own = value.replace(str(Path(__file__).resolve().parent), "/home/user/snapshots")
        return own.replace(sys.prefix, "/home/user/venv")
    if isinstance(value, tuple):
        return tuple(with_other_folders(part, seen) for part in value)
    if isinstance(value, (dict, list)) and id(value) not in seen:
        seen.add(id(value))
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            value[key] = with_other_folders(value[key], seen)
    return value


if __name__ == "__main__":
    main(*sys.argv[1:])
