"""Programs of cycles, drawn by a number: what `gc.collect()` is said to free, and what it then frees.

Run as `drawn_cycles.py FIRST COUNT [PIECE]`: each program is drawn, looked at and collected in a fork of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import functools
import gc
import itertools
import json
import operator
import os
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from functools import partial

import torch
from looking import print_json
from torch import nn

from gputui.explain.memory.unreachable import References
from gputui.model.attached.target import ReferencesPart
from gputui.probe.garbage.proof import proven
from gputui.probe.garbage.references import Part
from gputui.probe.main_thread.isolation import isolated
from gputui.probe.objects.handles import Handle
from gputui.probe.pace.meter import Meter

KEPT: list[object] = []
TAKEN_UP: list[weakref.ref[object]] = []
"""What the program gets hold of again, by weak references, between what was reasoned and its proof."""
CALLED: list[str] = []
PIECES = []
DRAW = random.Random()


def piece(function):
    PIECES.append(function)
    return function


def tensor(**options):
    return torch.zeros(DRAW.randrange(1, 40) * 1000 + DRAW.randrange(3) * (1 << 18), device="cuda", **options)


class Thing:
    pass


class Slotted:
    __slots__ = ("other", "value")


class Weak:
    __slots__ = ("__weakref__", "other", "value")


class Finalized:
    def __init__(self):
        self.own, self.value = self, tensor()

    def __del__(self):
        CALLED.append("del")


class Net(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.fc = nn.Linear(DRAW.randrange(1, 5) * size, size, device="cuda")
        self.register_buffer("seen", tensor())


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        ctx.kept = tensor()
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class OwnTensor(torch.Tensor):
    pass


@piece
def containers():
    made = [DRAW.choice((list, dict, set, deque, OrderedDict))() for _ in range(DRAW.randrange(1, 6))]
    holders = [made_by_thing(one) for one in made]
    for number, holder in enumerate(holders):
        put(holder, holders[(number + 1) % len(holders)])
        put(holder, tensor())
    return holders[0]


def made_by_thing(one):
    thing = Thing()
    thing.inside = one
    return thing


def held_by_cpp(value):
    future = torch.futures.Future()
    future.set_result(value)
    return future


def put(holder, value):
    inside = holder.inside
    if isinstance(inside, (dict, OrderedDict)):
        inside[len(inside)] = (value,) if DRAW.random() < 0.5 else value
    elif isinstance(inside, set):
        inside.add(value if isinstance(value, Thing) else (value, len(inside)))
    else:
        inside.append((0, [value]))


@piece
def plain_lists():
    first = [tensor()]
    first.append({"first": (first, tensor())})
    return first


@piece
def modules():
    net = Net()
    net.register_forward_hook(lambda module, inputs, output: net.fc(output))
    return net


@piece
def parent_and_child():
    net, child = Net(), Net()
    net.child = child
    object.__setattr__(child, "parent", net)
    return DRAW.choice((net, child))


@piece
def trained():
    trainer = Thing()
    trainer.own, trainer.model = trainer, Net()
    trainer.states = {parameter: torch.zeros_like(parameter) for parameter in trainer.model.parameters()}
    trainer.model.fc(torch.zeros(8, trainer.model.fc.in_features, device="cuda")).tanh().sum().backward()
    if DRAW.random() < 0.3:
        KEPT.append(trainer.model.fc.weight.grad)
    return trainer


@piece
def graphs():
    holder = Thing()
    holder.own, net = holder, Net()
    holder.out = net.fc(torch.zeros(32, net.fc.in_features, device="cuda")).tanh().exp()
    if DRAW.random() < 0.5:
        holder.more = holder.out * 2 + tensor().sum()
    if DRAW.random() < 0.3:
        KEPT.append(holder.out.sum())
    if DRAW.random() < 0.2:
        KEPT.append(holder.out.grad_fn)
    return net


@piece
def custom_functions():
    holder = Thing()
    holder.own, first = holder, tensor(requires_grad=True)
    holder.out = Double.apply(Double.apply(first))
    if DRAW.random() < 0.3:
        holder.out.grad_fn.holder = holder
    if DRAW.random() < 0.3:
        holder.out.grad_fn.out = holder.out
    return first


@piece
def created_graphs():
    net = Net()
    net.own = [net]
    net.fc(torch.zeros(4, net.fc.in_features, device="cuda")).tanh().sum().backward(create_graph=DRAW.random() < 0.5)
    return net


@piece
def views():
    holder, whole = Thing(), tensor()
    holder.own, holder.row = holder, whole[10:20]
    if DRAW.random() < 0.5:
        KEPT.append(whole[3:5] if DRAW.random() < 0.5 else whole.detach())
    if DRAW.random() < 0.5:
        holder.storage = holder.row.untyped_storage()
    if DRAW.random() < 0.2:
        KEPT.append(holder.row.untyped_storage())
    if DRAW.random() < 0.4:
        holder.transposed = tensor(requires_grad=True).view(2, -1).t()
    return holder.row


@piece
def closures():
    value = tensor()

    def inner(depth):
        return inner(depth - 1) if depth else value

    return inner


@piece
def exceptions():
    value = tensor()
    try:
        raise ValueError(value)
    except ValueError as error:
        kept = error
    return kept if DRAW.random() < 0.5 else None


@piece
def chained_exceptions():
    try:
        exceptions_in(tensor())
    except RuntimeError as error:
        errors = [error]
    return errors[0].__context__


def exceptions_in(value):
    try:
        raise KeyError(len(value))
    except KeyError as error:
        raise RuntimeError(tensor()) from error


@piece
def generators():
    box = []

    def running(inside, value):
        yield len(inside)
        CALLED.append(len(value))

    box.append(running(box, tensor()))
    next(box[0])
    return box


@piece
def frames():
    value, frame = tensor(), sys._getframe()
    return frame if value is None else None


@piece
def slots():
    one, two = Slotted(), Slotted()
    one.other, two.other, one.value, two.value = two, one, tensor(), (tensor(),)
    return two


@piece
def weak_references():
    one, two = Weak(), Weak()
    one.other, two.other, one.value, two.value = two, weakref.ref(one), tensor(), tensor()
    one.value.back = one
    KEPT.append(weakref.ref(one, lambda _: CALLED.append("weak")) if DRAW.random() < 0.5 else weakref.WeakSet([two]))
    return one


@piece
def weak_values():
    table = weakref.WeakValueDictionary()
    thing = Thing()
    thing.table, thing.value = table, tensor()
    table["thing"] = thing
    thing.own = [thing]
    return thing


@piece
def finalizers():
    finalized = Finalized()
    if DRAW.random() < 0.5:
        weakref.finalize(finalized, CALLED.append, "finalize")
    return finalized


@piece
def c_types():
    thing = Thing()
    value = tensor()
    thing.link = DRAW.choice(
        (
            lambda: partial(print, thing, value),
            lambda: itertools.chain([thing], [value]),
            lambda: operator.itemgetter(thing, value),
            lambda: map(thing.__init__, [value]),
            lambda: property(partial(print, thing), partial(print, value)),
            lambda: [thing, value].append,
            lambda: types.MappingProxyType({"thing": thing, "value": value}),
            lambda: ctypes.py_object([thing, value]),
            lambda: map(partial(print, thing), [value]),
            lambda: types.SimpleNamespace(thing=thing, value=value),
            lambda: functools.lru_cache(maxsize=3)(lambda: (thing, value)),
            lambda: types.MethodType(lambda own: value, thing),
            lambda: iter([thing, value]),
            lambda: enumerate([thing, value]),
            lambda: types.CellType((thing, value)),
            lambda: slice(thing, value),
        )
    )()
    return thing


@piece
def without_traversal():
    thing = Thing()
    thing.held = held_by_cpp([thing, tensor()])
    return thing if DRAW.random() < 0.5 else None


@piece
def hooks_of_tensors():
    thing = Thing()
    thing.value = tensor(requires_grad=True)
    thing.value.register_hook(lambda gradient: thing.value * gradient)
    if DRAW.random() < 0.5:
        (thing.value * 2).sum().backward()
    return thing.value


@piece
def attributes_of_tensors():
    value = tensor()
    value.own = {"value": [value, tensor()]}
    return value.own


@piece
def subclasses():
    value = tensor().as_subclass(OwnTensor)
    value.own, value.other = value, nn.Parameter(tensor())
    return value


@piece
def classes():
    class Local:
        value = tensor()

        def method(self):
            return Local

    made = Local()
    made.more = tensor()
    return made


@piece
def tasks():
    loop = asyncio.new_event_loop()

    async def work(value):
        future = loop.create_future()
        future.own = [future] if hasattr(future, "__dict__") else None
        await future
        return value

    task = loop.create_task(work(tensor()))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    return task


@piece
def contexts():
    variable = contextvars.ContextVar("variable")
    context = contextvars.copy_context()
    context.run(variable.set, [tensor(), context, variable])
    return context


@piece
def thread_locals():
    local = threading.local()
    local.value, local.own = tensor(), local
    return local


@piece
def alive():
    thing = Thing()
    thing.own, thing.value = thing, tensor()
    KEPT.append([{"deep": (thing,)}])
    return thing


@piece
def sparse():
    thing = Thing()
    thing.own = thing
    thing.value = torch.sparse_coo_tensor(torch.zeros(1, 9, dtype=torch.long, device="cuda"), tensor()[:9], (9,))
    return thing.value


@piece
def saved_by_hooks():
    thing = Thing()
    thing.own = thing

    def pack(value):
        return [value.clone(), tensor()]

    with torch.autograd.graph.saved_tensors_hooks(pack, operator.itemgetter(0)):
        thing.out = tensor(requires_grad=True).exp().sin()
    return thing.out


@piece
def taken_up_again():
    thing, other = Thing(), Thing()
    thing.own, thing.value = thing, tensor()
    other.own, other.out = other, tensor(requires_grad=True).exp()
    TAKEN_UP.append(weakref.ref(thing))
    return thing


def draw(seed: int, only: str) -> list[str]:
    """Make the cycles of one program; some of the objects stay in a variable, a frame or C."""
    DRAW.seed(seed)
    names = []
    for _ in range(DRAW.randrange(1, 12)):
        make = DRAW.choice([make for make in PIECES if only in make.__name__])
        part = make()
        names.append(make.__name__)
        if DRAW.random() < 0.15:
            names[-1] += " kept"
            KEPT.append(part if DRAW.random() < 0.7 else held_by_cpp(part))
        del part
    return names


def forecast() -> tuple[list[dict[str, object]], bool]:
    """What is said, after several stops of ten milliseconds."""
    references, place = References(), None
    while True:
        part = Part()
        part.read(torch, place, 10, 100)
        assert not part.is_broken
        references.add(ReferencesPart(**{**vars(part), "reason": "", "stop_ms": 0.0}))
        place = part.next
        if place is None:
            break
    (found,) = deque(references.candidates(), maxlen=1)
    cycles = {Handle(at, found.types[at]): number for at, number in found.cycles.items()}
    nodes = [Handle(at, found.types[at]) for at in found.nodes]
    KEPT.extend(again() for again in TAKEN_UP)
    return isolated(torch, partial(proven, torch, cycles, nodes, Meter(60)))


def bytes_of(groups: list[dict[str, object]]) -> int:
    """The sizes of the blocks, which may be larger than what was asked for."""
    segments = torch.cuda.memory._snapshot()["segments"]
    sizes = {block["address"]: block["size"] for segment in segments for block in segment["blocks"]}
    return sum(sizes[address] for group in groups for address, _ in group["storages"])


def try_one(seed: int, only: str) -> dict[str, object]:
    names = draw(seed, only)
    called, before = list(CALLED), torch.cuda.memory_allocated()
    groups, is_whole = forecast()
    is_untouched = called == CALLED and torch.cuda.memory_allocated() == before
    said = bytes_of(groups)
    gc.collect()
    freed = before - torch.cuda.memory_allocated()
    is_least = any(group["is_least"] for group in groups)
    met = {"said": said, "is_least": is_least, "freed": freed}
    return {**met, "whole": is_whole, "untouched": is_untouched, "names": names}


def in_a_fork(seed: int, only: str) -> dict[str, object]:
    """The result of one program, or the error that it ended with."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            result = try_one(seed, only)
        except Exception as error:  # noqa: BLE001 - said as the result of this program
            result = {"error": f"{type(error).__name__}: {error}"}
        os.write(writing, json.dumps({"seed": seed, **result}).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as results:
        text = results.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(text) if text else {"seed": seed, "error": f"ended with status {status}"}


def main() -> None:
    first, count, only = *map(int, sys.argv[1:3]), "".join(sys.argv[3:])
    gc.collect()
    gc.disable()
    results = [in_a_fork(first, only)]
    gc.freeze()  # what all programs have need not be read in each of them
    results += [in_a_fork(seed, only) for seed in range(first + 1, first + count)]
    print_json({"programs": results})


if __name__ == "__main__":
    main()
