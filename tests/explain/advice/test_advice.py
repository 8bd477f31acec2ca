"""Every rule of the Why screen: a moment in which it holds, and moments in which it must stay silent."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from inspect import isfunction
from pkgutil import walk_packages

import pytest

from gputui.explain import advice
from gputui.explain.advice.held.holders import device_holders
from gputui.explain.advice.program.batch import highest_of, size_of_batch
from gputui.explain.advice.rules import RULES
from gputui.explain.advice.situation import situation_of
from gputui.model.attached.owners import KEEPERS, Keeper, OwnerKind, OwnerName
from gputui.model.attached.target import CycleMaker, Swing
from gputui.model.attached.tensors import Category
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.process import Workers
from gputui.model.weight import Weight
from gputui.units import GIB, MIB
from tests.explain.beside import CASES as BESIDE
from tests.explain.maps import pool, segment
from tests.explain.moments import Tensor, key_value_cache, moment, row, story, text_of

P, G, S, A, X = (
    Category.PARAMETER,
    Category.GRADIENT,
    Category.OPTIMIZER_STATE,
    Category.ACTIVATION,
    Category.OTHER,
)
FAR = 1 << 40


def counting(seconds: int, **per_s: int):
    """One moment a second; counters rise by `per_s` each second."""
    return story(*(moment(time=100.0 + s, **{name: rate * s for name, rate in per_s.items()}) for s in range(seconds)))


def looking(*tensors_of_looks: list[Tensor], every_s: float = 1.0, **keywords):
    """One look after another."""
    return story(*(moment(row(*t), time=100.0 + n * every_s, **keywords) for n, t in enumerate(tensors_of_looks)))


def stepping(*batches: int, activation_mib: float = 100, every_sample_mib: float = 100, above_mib: float = 0):
    """A model of 1000 MiB, looked at near the top of steps with batches of these sizes, and after each."""
    model, looks = [Tensor(1000, "model.0.weight", P)], []
    for size in batches:
        saved = Tensor(activation_mib + size * every_sample_mib, "model.0: result", A, "Relu", first=size)
        looks += [[*model, saved], model]
    made = looking(*looks)
    highest = 1000 + max(activation_mib + size * every_sample_mib for size in batches) + above_mib
    swing = Swing(0, 1000 * MIB, int(highest * MIB), 30.0, 0.5)
    return replace(
        made,
        moments=tuple(
            replace(past, devices=tuple(replace(device, swing=swing) for device in past.devices))
            for past in made.moments
        ),
    )


def kept(count: int, live: float = 4, free: float = 124):
    """Segments, each kept by one tensor of a list."""
    return [row(Tensor(live, f"kept[{n}]", X), free=free, address=FAR * (n + 1)) for n in range(count)]


def held(count: int, live: float = 4, free: float = 124, **keywords):
    return story(moment(*kept(count, live, free), **keywords))


def capturing(count: int):
    """Segments that only a capture keeps."""
    return moment(*(segment(("free", 512), address=FAR * (n + 1)) for n in range(count)), keywords={"routed": [0]})


FULL = segment(("live", 10_000), address=FAR << 8)


def churning(*frees: int):
    """One moment a second, with these numbers of device allocations and frees since the start."""
    return story(
        *(moment(time=100.0 + n, num_device_alloc=count, num_device_free=count) for n, count in enumerate(frees))
    )


def went_on(*parts, **counters: int):
    """A moment whose counters are newer than its look."""
    then = moment(*parts or [FULL])
    device = then.devices[0]
    newer = replace(device.statistics, generation=device.statistics.generation + 1, **{"num_ooms": 1} | counters)
    return replace(then, devices=(replace(device, statistics=newer),))


def losses(count: int) -> list[Tensor]:
    """A list of losses, each with a graph that keeps an activation."""
    names = [f"losses[{n}] (train.py:9 in step)" for n in range(count)]
    kept = [Tensor(4 / MIB, name) for name in names]
    graphs = [Tensor(8, "mat1 of AddmmBackward0", saved_by="AddmmBackward0", kept_by=name) for name in names]
    return kept + graphs


def forward(gradient: float, saved: float = 40) -> list[Tensor]:
    """The tensors during a forward pass."""
    tensors = [Tensor(100, "model.weight", P), Tensor(saved, "mat1 of AddmmBackward0", A, "AddmmBackward0")]
    return tensors + ([Tensor(gradient, "model.weight.grad", G)] if gradient else [])


def adam(mib: float, states=("exp_avg", "exp_avg_sq"), dtype: str = "float32", beside=(), **keywords):
    owned = [Tensor(mib, f"optimizer.state[model.weight].{name}", S, dtype=dtype) for name in states]
    return story(moment(row(Tensor(mib, "model.weight", P), *owned), *beside, **keywords))


def loading(count: int, cpu: float, utilization: float):
    workers = Workers(count, cpu, 0, is_proportional=True)
    made = moment()
    (device,) = made.devices
    busy = replace(device, driver=replace(device.driver, utilization_percent=utilization))
    return story(replace(made, devices=(busy,), host=replace(made.host, workers=workers)))


def kept_alive(keeper: Keeper, *names: str, mib: float = 100, category: Category = X, beside=()):
    """A look at tensors that only `keeper` keeps alive."""
    return story(moment(row(*(Tensor(mib, name, category, keeper=keeper) for name in names), *beside)))


def graph_of(name: str, mib: float) -> list[Tensor]:
    """What the graph of a variable keeps, in four tensors."""
    label = f"{name} (train.py:9 in run)"
    saved = [
        Tensor(mib / 4, f"mat{n} of AddmmBackward0", A, saved_by="AddmmBackward0", kept_by=label) for n in range(4)
    ]
    return saved if mib else []


def model_of(name: str, mib: float) -> list[Tensor]:
    return [Tensor(mib, f"{name}.{layer}.weight", P) for layer in range(4)]


def rows_of_matrices(count: int, mib: float = 100, shown_mib: float = 1, category: Category = X) -> list[Tensor]:
    """Each a view of a matrix that nothing else keeps."""
    return [Tensor(mib, f"rows[{n}] (train.py:9 in step)", category, shown_mib=shown_mib) for n in range(count)]


def entries_of(name: str, mib: float, dtype: str = "float32") -> list[Tensor]:
    """The weights of `model_of` in a dictionary."""
    return [Tensor(mib, f"{name}['{layer}.weight'] (train.py:9 in main)", X, dtype=dtype) for layer in range(4)]


def standing(*tensors: Tensor):
    """A program that does nothing for ten seconds."""
    return story(*(moment(row(*tensors), time=100.0 + second, generation=7) for second in range(10)))


HOOK_CYCLE = OwnerName("Net, hook (train.py:11)", "", OwnerKind.CYCLE, CycleMaker.FUNCTION, "hook")
IN_TRAIN, IN_STEP = "hidden (exception of cell 12, cell 7:5 in train)", "x (exception of cell 12, cell 7:8 in step)"
OLD = "opt.param_groups[0].params[0]"
GC = {"keywords": {"values": (("garbage_collection_threshold", "0.8"),)}}
EXPANDABLE = {"keywords": {"is_expandable": True}}
POOL = {"pool_id": (1, 0)}

# rule: (moments where it holds, words of its sentences, {why it does not hold: moments where it does not})
RULE_CASES = {
    "kv_cache": (
        story(key_value_cache(32, (2, 8, 512, 1024))), ["512 tokens", "2 layers", "128 KiB a token"],
        {"a small cache": story(key_value_cache(1, (2, 8, 16, 1024)))},
    ),
    "out_of_memory": (
        story(moment(num_ooms=1)), ["failed once", "It happened before gputui attached at "],
        {"no allocation failed": story(moment())},
    ),
    "retries": (
        counting(30, num_alloc_retries=1), ["29 times", "29 times from", "at a rate of 60 a minute"],
        {"no retry": counting(30)},
    ),
    "churn": (
        counting(10, num_device_alloc=12, num_device_free=11),
        ["11 segments a second go back to the driver", "and allocated 108", "empty_cache() out of the training loop"],
        {
            "a single burst, as of a checkpoint": churning(0, 0, 0, 50, 50, 50, 50, 50),
            "one a second, as of new shapes": churning(*range(10)),
            "it was a minute ago": churning(*range(0, 2400, 12), *[2400] * 35),
            "the device was full": counting(10, num_device_alloc=12, num_device_free=12, num_alloc_retries=1),
            "the program only allocates": counting(10, num_device_alloc=12),
            "too few readings": counting(3, num_device_alloc=12, num_device_free=12),
            "garbage_collection_threshold is set": story(
                *(moment(time=100.0 + s, num_device_alloc=9 * s, num_device_free=9 * s, **GC) for s in range(9))
            ),
        },
    ),
    "kept_by_exception": (
        kept_alive(Keeper.NOTEBOOK_EXCEPTION, IN_TRAIN, IN_STEP),
        [
            "The exception of cell 12 keeps the locals of train() and step(): 200 MiB.",
            "hidden (cell 7:5 in train): 100 MiB",
            "get_ipython().InteractiveTB.tb",
        ],
        {
            "a variable holds it": kept_alive(Keeper.NONE, "hidden (train.py:5 in train)"),
            "it is little": kept_alive(Keeper.NOTEBOOK_EXCEPTION, IN_TRAIN, mib=20),
            "an output": kept_alive(Keeper.NOTEBOOK_OUTPUT, "Out[7]"),
        },
    ),
    "kept_by_output": (
        kept_alive(Keeper.NOTEBOOK_OUTPUT, "Out[7]", "Out[8].fc.weight", "_ (IPython's own copy)"),
        ["Out[7], Out[8] and _ keep 300 MiB.", "%xdel _7 frees Out[7]", "user_ns_hidden.update", "ends with ;"],
        {
            "a variable holds it": kept_alive(Keeper.NONE, "y"),
            "it is little": kept_alive(Keeper.NOTEBOOK_OUTPUT, "Out[7]", mib=20),
        },
    ),
    "kept_by_optimizer": (
        kept_alive(Keeper.OPTIMIZER, OLD, category=P, beside=[Tensor(100, "model.weight", P)]),
        ["opt keeps the parameters of a model that was replaced: 100 MiB.", "Create the optimizer again"],
        {
            "no model like it is alive": kept_alive(Keeper.OPTIMIZER, OLD, category=P),
            "it is little": kept_alive(Keeper.OPTIMIZER, OLD, category=P, mib=9, beside=[Tensor(9, "m.w", P)]),
        },
    ),
    "kept_by_cycle": (
        kept_alive(Keeper.CYCLE, HOOK_CYCLE, HOOK_CYCLE),
        [
            "gc.collect() would free about 200 MiB, which only reference cycles keep.",
            "A cycle of Net, hook (train.py:11): 200 MiB.",
            "let hook() use its argument",
        ],
        {
            "a variable holds it": kept_alive(Keeper.NONE, "net"),
            "it is little": kept_alive(Keeper.CYCLE, HOOK_CYCLE, mib=20),
        },
    ),
    "kept_by_gradient_graph": (
        kept_alive(Keeper.GRADIENT_GRAPH, "parameters and gradients of models that are gone"),
        ["backward(create_graph=True) keeps models that are gone: 100 MiB.", "Set the .grad of its parameters to None"],
        {"it is little": kept_alive(Keeper.GRADIENT_GRAPH, "parameters", mib=20)},
    ),
    "gradient_buckets": (
        kept_alive(Keeper.REDUCER, "the gradient buckets of ddp"),
        ["keeps the gradient buckets of ddp: 100 MiB.", "gradient_as_bucket_view=True", "saves up to 100 MiB"],
        {"they are small": kept_alive(Keeper.REDUCER, "the gradient buckets of ddp", mib=20)},
    ),
    "scattered": (
        held(4), ["4 large segments", "496 MiB stuck", "kept[*]", "97% of the reserved", "expandable_segments:True"],
        {
            "only two segments": held(2),
            "segments are expandable already": held(4, **EXPANDABLE),
            "half of each segment is live": held(4, live=64, free=64),
            "little is stuck": held(4, live=2, free=8),
            "only a small share is stuck": story(moment(*kept(4), FULL)),
            "a capture keeps them": story(capturing(4)),
        },
    ),
    "split": (
        story(went_on(inactive_split_bytes=3000 << 20)),
        ["2.9 GiB is free, but in pieces", "last look was at", "expandable_segments:True"],
        {
            "the look is current": story(moment(FULL, inactive_split_bytes=3000 << 20, num_ooms=1)),
            "the device was never full": story(went_on(inactive_split_bytes=3000 << 20, num_ooms=0)),
            "pieces come and go within a step": story(
                *(moment(FULL, time=90.0 + n) for n in range(4)), went_on(inactive_split_bytes=3000 << 20)
            ),
            "little is in pieces": story(went_on(inactive_split_bytes=50 << 20)),
            "only a small share is in pieces": story(went_on(inactive_split_bytes=500 << 20)),
            "the look already showed it": story(went_on(*kept(4), inactive_split_bytes=500 << 20)),
        },
    ),
    "stuck": (
        held(2, live=8, free=92),
        ["184 MiB of free memory", "2 segments", "92.0 MiB stuck beside 8.0 MiB of kept[0]", "Freeing kept[*] (2"],
        {
            "whole segments are free": story(moment(segment(("free", 200)))),
            "little is stuck": held(2, live=8, free=12),
            "only a small share is stuck": held(2, live=4000, free=40),
            "a capture keeps it": story(capturing(2)),
        },
    ),
    "release": (
        story(moment(segment(("free", 20)), segment(("live", 4), ("free", 16), address=FAR))),
        ["would return 20.0 MiB now", "From 1 of 2 segments", "from 40.0 MiB to 20.0 MiB", "16.0 MiB stuck"],
        {
            "nothing is cached": story(moment(segment(("live", 20)))),
            "the same bytes are stuck": held(2, live=8, free=92),
        },
    ),
    "failed_capture": (
        story(moment(segment(("free", 80), **POOL), keywords={"pools": [pool((1, 0), "", is_sure=False)]})),
        [
            "A failed capture of a CUDA graph most likely keeps 80.0 MiB that nothing uses",
            "delete its torch.cuda.CUDAGraph",
        ],
        {
            "it is little": story(
                moment(segment(("free", 20), **POOL), keywords={"pools": [pool((1, 0), "", is_sure=False)]})
            ),
            "nobody uses the pool": story(
                moment(segment(("free", 80), **POOL), keywords={"pools": [pool((1, 0), "")]})
            ),
        },
    ),
    "kept_variable": (
        story(moment(row(*(Tensor(100, f"rows[{n}] (train.py:9 in step)", X) for n in range(4))))),
        [
            "rows (train.py:9 in step) keeps 400 MiB in 4 elements: a leak if it grows.",
            "Append row.cpu() instead of row",
        ],
        {
            "looks enough": looking(*([Tensor(100, f"rows[{n}]", X) for n in range(4)] for _ in range(6))),
            "it is little": story(moment(row(*(Tensor(1, f"rows[{n}]", X) for n in range(4))))),
            "two buffers": story(moment(row(*(Tensor(100, f"rows[{n}]", X) for n in range(2))))),
            "one tensor": story(moment(row(Tensor(400, "table", X)))),
            "the graph of a step": story(moment(row(*losses(1)[1:], Tensor(9, "model.weight.grad", G)))),
        },
    ),
    "pools": (
        story(moment(segment(("free", 80), **POOL), keywords={"pools": [pool((1, 0), "torch.cuda.CUDAGraph")]})),
        ["80.0 MiB is free in private pools", "torch.cuda.CUDAGraph", "80.0 MiB more"],
        {"an unused pool": story(moment(segment(("free", 80), **POOL), keywords={"pools": [pool((1, 0), "")]}))},
    ),
    "pending": (
        story(moment(segment(("waits", 80), ("live", 8)))), ["80.0 MiB has been freed", "record_stream"],
        {"little is pending": story(moment(segment(("waits", 8), ("live", 8))))},
    ),
    "rounding": (
        story(moment(segment(("live", 300), slack=100 << 20), keywords={"roundup_divisions": (1,) * 8 + (2,) * 8})),
        ["adds 100 MiB", "33% of the allocated", "roundup_power2_divisions"],
        {"only a small share": story(moment(segment(("live", 3000), slack=100 << 20)))},
    ),
    "gap": (
        story(moment(segment(("live", 100), ("free", 900)), used_mib=4000)),
        ["NVML shows 3.9 GiB", "has 100 MiB allocated", "900 MiB in PyTorch's cache and 2.9 GiB outside", "context"],
        {
            "only the CUDA context is outside": story(moment(segment(("live", 1000)), used_mib=1600)),
            "the cache is only a small share": story(moment(segment(("live", 5000), ("free", 100)), used_mib=5600)),
            "NVML does not report the process": story(moment(segment(("live", 100), ("free", 900)))),
        },
    ),
    "others": (
        story(moment(segment(("live", 100)), used_mib=600, others_mib=8192)), ["8.0 GiB of this device", "10% of its"],
        {"a desktop": story(moment(segment(("live", 100)), used_mib=600, others_mib=500))},
    ),
    "room": (
        story(moment(segment(("free", 60)), used_mib=600)),
        ["fits now is 79.5 GiB", "79.4 GiB fits at once"],
        {"the device's memory is unknown": story(moment(segment(("free", 60))))},
    ),
    "leak": (
        looking(*(losses(n) for n in range(2, 11))),
        [
            "losses (train.py:9 in step) grows: 80.0 MiB in 10 graphs, 8.0 MiB a second.",
            "The list grew from 2 to 10 elements; each keeps an autograd graph.",
            "Its own tensors take 40 B; their graphs keep 80.0 MiB of activations on the device.",
            "Append loss.item() instead of loss: that would free 80.0 MiB.",
        ],
        {
            "activations come and go": looking(*(losses(n) for n in (2, 9, 4, 7, 3, 8, 5, 9, 10))),
            "it filled up once": looking(*(losses(n) for n in (2, 3, 4, 8, 8, 8, 8, 8, 8))),
            "too few looks": looking(*(losses(n) for n in (2, 5, 8, 11))),
            "a model is being built": looking(
                *([Tensor(8, f"model.{i}.weight", P) for i in range(n)] for n in range(2, 11))
            ),
            "two more, as of a queue": looking(*([Tensor(8, "batch", X)] * n for n in (1, 1, 2, 2, 3, 3))),
        },
    ),
    "kept_gradients": (
        looking(*(forward(100, saved) for saved in (40, 0, 80, 60, 0, 20))),
        ["100 MiB of gradients", "each of 6 looks, 4 of them", "up to 80.0 MiB", "zero_grad(set_to_none=True)"],
        {
            "gradients were dropped before a forward pass": looking(*(forward(g) for g in (100, 100, 0, 100))),
            "no forward pass was seen": looking(*(forward(100, saved=0) for _ in range(6))),
            "gradients are small": looking(*(forward(1) for _ in range(6))),
            "gradients are only a small share": looking(*([*forward(100), Tensor(4000, "cache", X)] for _ in range(6))),
            "the program makes no progress": looking(*(forward(100) for _ in range(3)), generation=1),
        },
    ),
    "kept_graph": (
        standing(Tensor(300, "model.weight", P), *graph_of("out", 400)),
        ["out (train.py:9 in run) keeps an autograd graph: 400 MiB", "a graph with 4 x AddmmBackward0", "del out"],
        {
            "the program goes on": looking([*graph_of("out", 400)], [*graph_of("out", 200)]),
            "a step is on its way": looking(*([*graph_of("out", mib)] for mib in (400, 200, 0, 400, 300, 400))),
            "it is little": standing(Tensor(300, "model.weight", P), *graph_of("out", 8)),
            "it is a small share": standing(Tensor(9000, "model.weight", P), *graph_of("out", 400)),
        },
    ),
    "container_tensors": (
        standing(*(Tensor(100, f"buffer[{n}] (train.py:9 in run)", X) for n in range(9))),
        ["buffer (train.py:9 in run) keeps 900 MiB on the device in 9 elements.", "host memory"],
        {
            "the program goes on": looking([Tensor(100, f"buffer[{n}]", X) for n in range(9)]),
            "a double buffer": standing(*(Tensor(100, f"buffer[{n}]", X) for n in range(2))),
            "it is little": standing(*(Tensor(1, f"buffer[{n}]", X) for n in range(9))),
        },
    ),
    "small_views": (
        story(moment(row(*rows_of_matrices(15)))),
        [
            "rows (train.py:9 in step) keeps 1.5 GiB through views of 15.0 MiB.",
            "Keep row.clone() instead of row: that would free 1.5 GiB.",
        ],
        {
            "they show all of it": story(moment(row(*rows_of_matrices(15, shown_mib=0)))),
            "it is little": story(moment(row(*rows_of_matrices(15, mib=1, shown_mib=0.01)))),
            "parameters are views of a flat one": story(moment(row(*rows_of_matrices(15, category=P)))),
        },
    ),
    "second_model": (
        story(moment(row(*model_of("model", 100), *model_of("ema", 100), Tensor(50, "model.0.weight.grad", G)))),
        ["ema is a second copy of model on the device: 400 MiB", "Its 4 parameters", "EMA"],
        {
            "both are trained": story(
                moment(row(*(Tensor(50, f"{name}.0.grad", G) for name in "ab"), *model_of("a", 9), *model_of("b", 9)))
            ),
            "another model": story(moment(row(*model_of("a", 100), *model_of("b", 90), Tensor(50, "a.0.grad", G)))),
            "it is little": story(moment(row(*model_of("a", 1), *model_of("b", 1), Tensor(1, "a.0.grad", G)))),
            "nothing is trained": story(moment(row(*model_of("a", 100), *model_of("b", 100)))),
        },
    ),
    "weight_copy": (
        story(moment(row(*model_of("model", 100), *entries_of("checkpoint['model']", 100)))),
        [
            "checkpoint['model'][*] (train.py:9 in main) holds a copy of the weights of model: 400 MiB.",
            "Its 4 tensors have the shapes of the 4 parameters of model.",
            'Delete it once it has been loaded (del checkpoint), or load it with map_location="cpu"',
        ],
        {
            "another shape": story(moment(row(*model_of("model", 100), *entries_of("checkpoint['model']", 90)))),
            "half of them": story(moment(row(*model_of("model", 100), *entries_of("checkpoint['model']", 100)[:2]))),
            "one more": story(
                moment(row(*model_of("model", 100), *entries_of("saved", 100), Tensor(100, "saved['4.weight']", X)))
            ),
            "a list of one shape": story(
                moment(row(*model_of("model", 100), *(Tensor(100, f"kept[{n}]", X) for n in range(4))))
            ),
            "it is little": story(moment(row(*model_of("model", 1), *entries_of("checkpoint['model']", 1)))),
            "each step makes and frees it": looking(
                [*model_of("model", 100), *entries_of("updates", 100)],
                model_of("model", 100),
                [*model_of("model", 100), *entries_of("updates", 100)],
            ),
        },
    ),
    "unused_graph": (
        looking(*(forward(0) for _ in range(7))), ["40.0 MiB is saved", "7 looks in 6s", "torch.no_grad()"],
        {
            "there was a gradient": looking(*(forward(0) for _ in range(6)), forward(100)),
            "too short a time": looking(*(forward(0) for _ in range(7)), every_s=0.1),
            "nothing is saved": looking(*(forward(0, saved=0) for _ in range(7))),
            "the program makes no progress": looking(*(forward(0) for _ in range(7)), generation=1),
        },
    ),
    "optimizer_states": (
        adam(400, world_size=8),
        ["keeps 800 MiB: 8 bytes for each of 104.9 million", "67% of the allocated", "8-bit", "100 MiB on each"],
        {
            "one state of 4 bytes": adam(400, ("momentum_buffer",)),
            "states in 16 bits": adam(400, dtype="bfloat16"),
            "states are small": adam(20),
            "activations dominate": adam(400, beside=(FULL,)),
        },
    ),
    "one_worker": (
        loading(1, 97.0, 20.0), ["20% busy", "97% of a core", "num_workers"],
        {
            "several workers": loading(4, 97.0, 20.0),
            "the device is busy": loading(1, 97.0, 90.0),
            "the worker waits too": loading(1, 30.0, 20.0),
        },
    ),
    "batch": (
        stepping(2, 4, 8), ["1.1 GiB, and 100 MiB more for each sample", "1.3 GiB with a batch of 2", "1.9 GiB"],
        {
            "hardly any activations": stepping(8, activation_mib=1, every_sample_mib=1),
            "memory does not move": looking([Tensor(100, "x", A, "Relu", first=8)]),
            "no look came near the top": stepping(2, 4, 8, above_mib=1500),
        },
    ),
    **BESIDE,
}  # fmt: skip

SILENT = [(kind, reason, moments) for kind, (_, _, cases) in RULE_CASES.items() for reason, moments in cases.items()]


@pytest.mark.parametrize(
    ("kind", "moments", "words"),
    [(kind, moments, words) for kind, (moments, words, _) in RULE_CASES.items()],
    ids=RULE_CASES,
)
def test_a_rule_that_holds_gives_a_finding_with_its_numbers(kind, moments, words):
    finding = moments.findings()[kind]
    assert [word for word in words if word not in text_of(finding)] == [], text_of(finding)


@pytest.mark.parametrize(
    ("kind", "moments"),
    [(kind, moments) for kind, _, moments in SILENT],
    ids=[f"{k}: {reason}" for k, reason, _ in SILENT],
)
def test_a_rule_that_does_not_hold_gives_no_finding(kind, moments):
    assert kind not in moments.findings()


@pytest.mark.parametrize("allocated_bytes", [0, -1, 1])
@pytest.mark.parametrize("kind", RULE_CASES)
def test_counters_that_contradict_the_map_raise_nothing(kind, allocated_bytes):
    """They are read at another moment, or by a probe that tells nonsense."""

    def contradicted(device):
        statistics = replace(device.statistics, allocated_bytes=allocated_bytes, reserved_bytes=allocated_bytes)
        layout = device.layout and replace(device.layout, statistics=statistics)
        return replace(device, statistics=statistics, layout=layout)

    moments = RULE_CASES[kind][0]
    changed = [replace(past, devices=tuple(map(contradicted, past.devices))) for past in moments.moments]
    assert replace(moments, moments=tuple(changed)).findings() is not None


COPIES = {
    "averages": (entries_of("ema.shadow", 100), "ema.shadow[*] (train.py:9 in main) holds a copy", "Keep the averages"),
    "several": (
        [*entries_of("best[0]", 100), *entries_of("best[1]", 100)],
        "best[*][*] (",
        "holds 2 copies of the weig",
    ),
    "in half precision": (
        entries_of("half", 50, "bfloat16"),
        "of the weights of model in bfloat16: ",
        "torch.autocast",
    ),
}


@pytest.mark.parametrize(("tensors", *"ab"), COPIES.values(), ids=COPIES)
def test_a_copy_of_the_weights_is_told_by_what_it_is_for(tensors, a, b):
    finding = story(moment(row(*model_of("model", 100), *tensors))).findings()["weight_copy"]
    assert a in text_of(finding)
    assert b in text_of(finding)


def test_a_cycle_of_a_maker_that_is_not_known_is_told_without_it():
    unknown = OwnerName("Net", "", OwnerKind.CYCLE, "a.b[a.b[", "hook")
    finding = kept_alive(Keeper.CYCLE, unknown, unknown).findings()["kept_by_cycle"]
    assert finding.title.startswith("gc.collect() would free about")


def test_the_cure_for_other_processes_can_be_read_without_the_title():
    """The line under the verdict shows it alone."""
    finding = story(moment(segment(("live", 100)), used_mib=600, others_mib=60_000)).findings()["others"]
    assert finding.remedy == "`gputui` lists the other processes on this device; end those that you do not need."


OF_SERVERS = {"waits_for_blocks", "waits_for_seats", "would_not_start_again", "would_not_wake"}
"""Their cases are in `test_serving.py`: they read what an engine says of itself."""


def test_every_rule_has_cases():
    assert {rule.kind for rule in RULES} == {*RULE_CASES, *OF_SERVERS}


def test_every_function_that_finds_something_is_a_rule():
    """One without a row in `RULES` would never be asked."""
    modules = [import_module(found.name) for found in walk_packages(advice.__path__, f"{advice.__name__}.")]
    found = {
        name
        for module in modules
        for name, function in vars(module).items()
        if isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and list(function.__annotations__.values()) == ["Situation", "Finding | None"]
    }
    assert found | {facts.rule for facts in KEEPERS.values() if facts.title} == {rule.kind for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_what_a_rule_replaces_is_found_by_another(rule):
    assert set(rule.replaces) < {other.kind for other in RULES} - {rule.kind}


@pytest.mark.parametrize(
    ("keeper", "name", "title", "remedy"),
    [
        (Keeper.LAST_EXCEPTION, "x (last exception, a.py:5 in f)", "The last exception keeps", "sys.last_exc = None"),
        (Keeper.EXCEPTION, "x (exception errors[3], a.py:5 in f)", "The exception errors[3] keeps", "clear_frames"),
        (Keeper.LOST_EXCEPTION, "x (lost exception, a.py:5 in f)", "The lost exception keeps", "gc.collect()"),
        (Keeper.INTERPRETER_OUTPUT, "_", "_ keeps", "Display another value"),
    ],
)
def test_what_is_kept_outside_notebooks_has_its_own_remedy(keeper, name, title, remedy):
    (finding,) = [
        finding for kind, finding in kept_alive(keeper, name).findings().items() if kind.startswith("kept_by")
    ]
    assert finding.title.startswith(title)
    assert remedy in finding.remedy


def test_gradients_left_in_a_program_that_stands_still_are_found():
    finding = standing(*model_of("model", 100), Tensor(100, "model.0.weight.grad", G)).findings()["kept_gradients"]
    assert finding.title == "model still has 100 MiB of gradients."
    assert finding.remedy == "To free them: model.zero_grad(set_to_none=True)."


def test_a_graph_that_stays_the_same_while_the_program_goes_on_is_found():
    looks = looking(*([*graph_of("first", 400), Tensor(8 * (n % 2) + 8, "x")] for n in range(6)))
    assert looks.findings()["kept_graph"].owners == ("first",)


ALMOST_ALL = 79 * GIB
"""Of a device of 80 GiB."""


def test_fragmentation_of_a_device_with_room_is_no_finding():
    assert held(4, used_mib=1000).findings().keys().isdisjoint({"scattered", "stuck"})
    assert "scattered" not in held(4, used_mib=1000, num_ooms=1).findings()
    assert "scattered" in held(4, used_mib=1000, num_ooms=1, peak_reserved_bytes=ALMOST_ALL).findings()


def test_free_memory_that_a_capture_keeps_is_not_called_stuck_beside_live_blocks():
    made = capturing(4)
    assert story(made).findings()["release"].evidence == ("Not returned: 2.0 GiB kept by a capture.",)
    assert "stuck" not in device_holders(made.devices[0], ())[0].keeps


def test_private_pools_are_told_without_the_default_pool_that_a_capture_keeps():
    keywords = {"routed": [0], "pools": [pool((1, 0), "torch.cuda.MemPool")]}
    made = moment(segment(("free", 4096)), segment(("free", 128), address=FAR, **POOL), keywords=keywords)
    finding = story(made).findings()["pools"]
    assert finding.evidence == ("Kept by torch.cuda.MemPool. Without them, empty_cache() would return 128 MiB more.",)
    assert finding.addresses == (FAR,)


def test_after_a_request_that_was_too_large_the_remedy_is_about_the_request():
    remedies = [
        held(4, used_mib=1000, num_ooms=1, **counters).findings()["out_of_memory"].remedy
        for counters in ({}, {"peak_reserved_bytes": ALMOST_ALL})
    ]
    assert ["the request itself was too large" in remedy for remedy in remedies] == [True, False]


def test_with_one_size_of_batch_a_sample_needs_its_activations():
    finding = stepping(8, activation_mib=0).findings()["batch"]
    assert finding.title == "Each sample of a batch of 8 needs about 100 MiB within a step."


def test_what_a_backward_pass_needs_beside_the_looks_grows_with_the_batch():
    title = stepping(2, 8, above_mib=400).findings()["batch"].title
    assert title == "A step needs about 1.1 GiB, and 150 MiB more for each sample of its batch."


def test_a_batch_that_is_flattened_to_words_counts_as_its_samples():
    flat = [Tensor(200, f"model.{n}: mat1", A, "AddmmBackward0", first=8 * 64) for n in range(3)]
    top = moment(row(Tensor(150, "model: result", A, "Softmax", first=8), *flat))
    assert size_of_batch(top.devices[0].layout) == 8


def test_views_with_graphs_are_to_be_detached_before_they_are_copied():
    finding = story(moment(row(*rows_of_matrices(15, category=A)))).findings()["small_views"]
    assert finding.remedy == "Keep row.detach().clone() instead of row: that would free 1.5 GiB."


@pytest.mark.parametrize(("is_complete", "is_found"), [(True, True), (False, False)])
def test_a_slice_tells_nothing_before_all_is_searched_as_the_rest_may_be_shown_by_another_tensor(is_complete, is_found):
    mask = Tensor(1000, "attention_mask (modeling_llama.py:459 in forward)", X, shown_mib=0.01)
    assert ("small_views" in story(moment(row(mask), is_complete=is_complete)).findings()) == is_found
    assert "small_views" in story(moment(row(*rows_of_matrices(15)), is_complete=is_complete)).findings()


def test_what_a_variable_keeps_with_its_graph_tells_no_batch():
    kept = [Tensor(100, f"samples[{n}] (train.py:9 in step)", A, first=8) for n in range(5)]
    top = moment(row(Tensor(150, "model: result", A, "Relu", first=64), *kept)).devices[0].layout
    assert size_of_batch(top) == 64
    assert highest_of([top])[64][1] == 150 << 20


def test_a_look_without_many_names_tells_no_batch():
    nameless = Tensor(400, "", Category.UNATTRIBUTED)
    few = moment(row(Tensor(100, "model: result", A, "Relu", first=512), nameless)).devices[0].layout
    assert size_of_batch(few) == 512
    assert highest_of([few]) == {}


def test_one_cause_has_one_finding():
    kinds = held(4, num_ooms=1, num_alloc_retries=1).findings().keys()
    assert kinds.isdisjoint({"stuck", "retries", "release"})
    assert {"out_of_memory", "scattered"} <= kinds


def test_a_variable_that_begins_with_an_underscore_is_deleted_as_any_other():
    for name in ("_history", "_"):
        finding = standing(Tensor(300, "model.weight", P), *graph_of(name, 400)).findings()["kept_graph"]
        assert finding.remedy.startswith(f"Delete it (del {name}) or keep only {name}.detach()")


def test_findings_of_one_weight_stand_with_the_largest_gain_first():
    graph, copies = graph_of("out", 400), [Tensor(300, f"buffer[{n}] (train.py:9 in run)", X) for n in range(4)]
    assert list(standing(*graph, *copies).findings())[:2] == ["container_tensors", "kept_graph"]


def test_graphs_in_several_places_are_told_together():
    names = [f"net.layers.{layer}.seen[{n}] (a.py:9 in f)" for layer in range(2) for n in range(2)]
    saved = {"saved_by": "AddmmBackward0", "category": A}
    graphs = [Tensor(100, "mat1 of AddmmBackward0", kept_by=name, **saved) for name in names]
    elements = [Tensor(1, name, A) for name in names]
    finding = standing(*graphs, *elements).findings()["kept_graph"]
    assert finding.title.startswith("net.layers.*.seen (a.py:9 in f) keeps an autograd graph: 400 MiB")
    assert finding.evidence[0] == "Together: 2 places, 4 elements."


@pytest.mark.parametrize(("num_ooms", "weight"), [(0, Weight.ADVICE), (1, Weight.PROBLEM)])
def test_a_kept_exception_is_a_problem_after_memory_ran_out(num_ooms, weight):
    kept_tensor = Tensor(100, IN_TRAIN, X, keeper=Keeper.NOTEBOOK_EXCEPTION)
    assert story(moment(row(kept_tensor), num_ooms=num_ooms)).findings()["kept_by_exception"].weight is weight


def test_exceptions_in_one_list_are_named_after_it():
    kept = [Tensor(100, f"x (exception run.errors[{n}][1], a.py:5 in f)", X, keeper=Keeper.EXCEPTION) for n in range(3)]
    finding = story(moment(row(*kept))).findings()["kept_by_exception"]
    assert finding.title == "3 exceptions in run.errors keep the locals of f(): 300 MiB."
    assert "Keep str(error) instead of the exceptions in run.errors" in finding.remedy


def test_a_lost_exception_beside_the_last_one_gets_the_remedy_that_frees_both():
    lost = Tensor(300, "x (exception of cell 5, a.py:5 in f)", X, keeper=Keeper.LOST_EXCEPTION)
    kept_last = Tensor(100, IN_TRAIN, X, keeper=Keeper.NOTEBOOK_EXCEPTION)
    finding = story(moment(row(lost, kept_last))).findings()["kept_by_exception"]
    assert "InteractiveTB" in finding.remedy


def test_findings_are_sorted_by_weight():
    tight = held(4, used_mib=600, num_ooms=1, peak_reserved_bytes=ALMOST_ALL)
    weights = [finding.weight for finding in tight.findings().values()]
    assert weights == sorted(weights, key=tuple(Weight).index)
    assert list(tight.findings())[:2] == ["out_of_memory", "scattered"]


HALF_CACHED = [segment(("live", 500), ("free", 600))]
WEIGHTS = {
    "one retry in five minutes is advice": ("retries", [(100, 0), (400, 1)], [], None, Weight.ADVICE),
    "frequent retries are a problem": ("retries", [(100, 0), (110, 5)], [], None, Weight.PROBLEM),
    "room for a tenth of the device is a fact": ("room", [(100, 0)], [], 70_000, Weight.FACT),
    "no room is a fact, too": ("room", [(100, 0)], [], 80_000, Weight.FACT),
    "a cache of half the process is a fact": ("gap", [(100, 0)], HALF_CACHED, 1600, Weight.FACT),
}


@pytest.mark.parametrize(("kind", "retries", "parts", "used_mib", "weight"), WEIGHTS.values(), ids=WEIGHTS)
def test_a_finding_weighs_more_where_its_cause_is_worse(kind, retries, parts, used_mib, weight):
    moments = [moment(*parts, time=float(at), num_alloc_retries=n, used_mib=used_mib) for at, n in retries]
    assert story(*moments).findings()[kind].weight is weight


def test_a_long_history_is_sampled_and_includes_the_newest_look():
    many = looking(*([Tensor(8, "batch", X)] for _ in range(100))).moments
    looks = situation_of(many[-1], many[-1].devices[0], Timeline(*many)).looks
    assert 10 < len(looks) < 30
    assert (looks[0].time < 105, looks[-1].time) == (True, 199.0)


def bare(seen, names_time=0.0):
    """The same moment after a look without tensors: names are those of `names_time`, or missing if it is 0."""
    (device,) = seen.devices
    known = {"names_time": names_time} if names_time else {"names_time": 0.0, "storages": (), "by_category": {}}
    return replace(seen, devices=(replace(device, layout=replace(device.layout, **known)),))


def test_looks_without_tensors_do_not_affect_findings_about_tensors():
    moments = looking(*(forward(100, saved) for saved in (40, 0, 80, 60, 0, 20))).moments
    mixed = [bare(seen) if n in (1, 5) else seen for n, seen in enumerate(moments)]
    assert "kept_gradients" in story(*mixed).findings()


def test_the_remedy_for_kept_gradients_names_their_optimizer():
    states = [Tensor(8, f"{name}.exp_avg", S) for name in ("other.state[net.w]", "self.adam.state[model.weight]")]
    looks = looking(*([*forward(100, saved), *states] for saved in (40, 0, 80, 60, 0, 20)))
    remedy = looks.findings()["kept_gradients"].remedy
    assert remedy.startswith("Call self.adam.zero_grad(set_to_none=True) right after self.adam.step()")


def test_a_look_that_saw_a_part_of_the_gradients_does_not_hide_that_they_are_kept():
    gradients = (100, 100, 10, 100, 100, 100, 100)
    looks = (moment(row(*forward(g)), time=100.0 + n, is_complete=g == 100) for n, g in enumerate(gradients))
    assert story(*looks).findings()["kept_gradients"].title.startswith("100 MiB of gradients")


def test_a_cache_emptied_by_slow_steps_is_churn_however_often_it_is_read():
    assert "churn" in churning(*(40 * (n // 4) for n in range(24))).findings()


def test_looks_during_the_first_step_do_not_hide_gradients_kept_later():
    first_step = [forward(0), forward(0, saved=80), forward(30), forward(100)]
    finding = looking(*first_step, *(forward(100, saved) for saved in (40, 0, 80))).findings()["kept_gradients"]
    assert finding.title.startswith("100 MiB of gradients")
    assert "each of 4 looks, 3 of them" in finding.evidence[0]


def test_a_leak_names_only_variables_that_hold_the_tensors():
    def graphs(count: int) -> list[Tensor]:
        return [Tensor(8, f"mat{number} of AddmmBackward0", A, "AddmmBackward0") for number in range(3 * count)]

    with_list = looking(*([*losses(count), *graphs(count)] for count in range(2, 11)))
    assert with_list.findings()["leak"].owners == ("losses",)
    without = looking(*(graphs(count) for count in range(2, 11)))
    assert without.findings()["leak"].title.startswith("A leak: the program keeps more and more tensors, ")


def test_small_tensors_that_become_more_beside_a_large_cache_are_no_leak_of_its_size():
    def served(count: int) -> list[Tensor]:
        cache = [Tensor(1024, f"kv_caches[{number}]", Category.KV_CACHE) for number in range(2)]
        return [*cache, *(Tensor(1 / 8, None) for _ in range(count))]

    few = looking(*(served(10 * count) for count in range(2, 11)), is_complete=False)
    assert "leak" not in few.findings()
    many = looking(*(served(100 * count) for count in range(2, 11)), is_complete=False)
    assert many.findings()["leak"].title.endswith("100 MiB more since the first look.")


def test_moments_later_than_the_selected_one_are_ignored():
    whole = looking(*(losses(n) for n in range(2, 11)))
    early = story(*whole.moments[3:], whole.moments[2])
    assert "leak" not in early.findings()


def test_a_finding_points_to_its_screen_addresses_and_owners():
    stuck = held(2, live=8, free=92).findings()["stuck"]
    assert (stuck.screen, stuck.addresses, stuck.owners) == ("map", (FAR, 2 * FAR), ("kept[*]",))
    leak = looking(*(losses(n) for n in range(2, 11))).findings()["leak"]
    assert (leak.screen, len(leak.addresses), leak.owners) == ("tensors", 20, ("losses",))


def test_out_of_memory_evidence_separates_observed_from_earlier_failures():
    moments = [moment(time=100.0 + n, num_ooms=2 + (n > 3)) for n in range(6)]
    seen = story(*moments).findings()["out_of_memory"].evidence[0]
    assert seen.startswith("Once at ")
    assert "2 times before" in seen


@pytest.mark.parametrize("counts", [(5, 0, 2), (5, 2, 2)], ids=["read in between", "not read in between"])
def test_failures_are_counted_anew_after_the_program_has_reset_its_counters(counts):
    for kind, counter in (("out_of_memory", "num_ooms"), ("retries", "num_alloc_retries")):
        moments = [moment(time=100.0 + n, **{counter: count}) for n, count in enumerate(counts)]
        when = story(*moments).findings()[kind].evidence[0]
        assert when == "It has happened 2 times since the program reset PyTorch's accumulated statistics."


def test_a_process_without_a_look_gets_findings_from_counters_alone():
    bare = story(moment(num_alloc_retries=1))
    device = bare.moments[0].devices[0]
    blind = replace(bare.moments[0], devices=(replace(device, layout=None, bridge=None, room=None),), look_time=0.0)
    assert list(story(blind).findings()) == ["retries"]


@pytest.mark.parametrize(
    ("counters", "remedy"),
    [
        ({"peak_allocated_bytes": 20 * GIB}, "expandable_segments:True"),
        ({"peak_allocated_bytes": 70 * GIB}, "Use a smaller batch"),
        ({"peak_allocated_bytes": 20 * GIB, **EXPANDABLE}, "Use a smaller batch"),
    ],
    ids=["full of cache", "full of tensors", "segments that expand"],
)
def test_retries_are_blamed_on_the_cache_where_tensors_never_filled_the_device(counters, remedy):
    there = story(moment(FULL, num_alloc_retries=2, peak_reserved_bytes=78 * GIB, **counters))
    assert remedy in there.findings()["retries"].remedy
