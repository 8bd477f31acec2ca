"""Programs in a mode that watches or changes each operation:  recording_states.py STATE... (see `state_looks`)"""

import json
import os
import weakref
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch
from state_looks import DEVICE, CallsItsDispatch, Model, example, main, state, unusual_tensors, values
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class CountedOperations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))


class CountedFunctions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.counts[str(getattr(function, "__name__", function))] += 1
        return function(*args, **(kwargs or {}))


@state
def autocast(look):
    model = Model(look)
    with CountedOperations() as operations, torch.autocast(DEVICE, dtype=torch.bfloat16):
        first, second = model(example()), model(example())  # the second uses the weights that the first has cast
    return {"results": [values(first), values(second)], "operations": operations.counts}


@state
def inference_mode(look):
    kept = unusual_tensors()
    with torch.inference_mode():
        result = Model(look)(example())
    return {"result": values(result), "is_inference": result.is_inference(), "kept": len(kept)}


@state
def deterministic_mode(look):
    torch.use_deterministic_algorithms(True)
    kept = unusual_tensors()
    model = Model(look)
    model(example()).sum().backward()
    torch.use_deterministic_algorithms(False)
    return {"gradients": model.gradients(), "kept": len(kept)}


@state
def anomaly_mode(look):
    kept = unusual_tensors()
    model = Model(look)
    before = torch._C._autograd._get_sequence_nr()
    with torch.autograd.detect_anomaly():
        result = model(example())
        nodes = torch._C._autograd._get_sequence_nr() - before
        result.sum().backward()
        look()
    return {"gradients": model.gradients(), "nodes": nodes, "kept": len(kept)}


@state
def dispatch_and_function_modes(look):
    model, kept = Model(look), unusual_tensors()
    CallsItsDispatch.calls.clear()
    with CountedOperations() as operations, CountedFunctions() as functions:
        result = model(example())
        look()
    counts = {"operations": operations.counts, "functions": functions.counts, "own": dict(CallsItsDispatch.calls)}
    return {"result": values(result), "kept": len(kept), **counts}


@state
def default_device(look):
    with torch.device(DEVICE):
        result = Model(look)(example())
        return {"result": values(result), "device": str(torch.zeros(1).device)}


@state
def saved_tensor_hooks(look):
    model, kept = Model(look), unusual_tensors()
    packed, unpacked = [], []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: unpacked.append(1) or t):
        result = model(example())
        look()
    counts = len(packed), len(unpacked)
    result.sum().backward()
    return {"packed and unpacked": counts, "gradients": model.gradients(), "kept": len(kept)}


class LooksWhenFreed:
    """Held by a tensor, with which it is freed."""

    def __init__(self, look):
        self.look = look

    def __del__(self):
        self.look()


def watched(tensors, look):
    """Weak references to the tensors, whose callbacks take looks."""
    callbacks = [lambda _: look(), lambda *_: look(), partial(lambda first, reference: look(), 1)]
    return [weakref.ref(tensor, callback) for tensor, callback in zip(tensors, callbacks, strict=True)]


@state
def backward_pass_that_frees_tensors(look):
    """Looks while a node releases the tensors that it has saved."""
    leaf = torch.ones(4, requires_grad=True)  # on the host, where the main thread makes the backward pass
    factors = [torch.arange(4.0) + number for number in range(4)]
    references = watched(factors[:3], look)
    factors[3].attribute = LooksWhenFreed(look)
    result = leaf
    while factors:
        result = result * factors.pop()
    result.sum().backward()
    return {"gradient": values(leaf.grad), "alive": [reference() is not None for reference in references]}


@state
def gradients_that_are_freed(look):
    """Looks while `grad = None` frees the gradients of parameters."""
    parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(4)]
    sum(parameter.sum() for parameter in parameters).backward()
    references = watched([parameter.grad for parameter in parameters[:3]], look)
    parameters[3].grad.attribute = LooksWhenFreed(look)
    for parameter in parameters:
        parameter.grad = None
    return {"alive": [reference() is not None for reference in references]}


@state
def cuda_graph_capture(look):
    model, kept = Model(lambda: None), unusual_tensors()
    x = example()
    model(x)
    model.looks = look
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(x)
    graph.replay()
    torch.cuda.synchronize()
    return {"shape": list(result.shape), "kept": len(kept)}


@state
def torch_profiler(look):
    """Events by name, and the Python functions of gputui that the profile shows as callers."""
    model, kept = Model(look), unusual_tensors()
    activities = [torch.profiler.ProfilerActivity.CPU]
    recorded = dict.fromkeys(("with_stack", "record_shapes", "profile_memory"), True)
    with torch.profiler.profile(activities=activities, **recorded) as profile:
        model(example()).sum().backward()
    with NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    names = Counter(event["name"] for event in events if event.get("cat") == "cpu_op" or event["name"] == "[memory]")
    ours = Counter(event["name"] for event in events if event.get("cat") == "python_function")
    return {
        "events": names,
        "ours": {name: n for name, n in ours.items() if "gputui/probe/" in name},
        "kept": len(kept),
    }


@state
def execution_trace(look):
    model, kept = Model(look), unusual_tensors()
    observer = torch.profiler.ExecutionTraceObserver()
    with NamedTemporaryFile(suffix=".json") as file:
        observer.register_callback(file.name)
        observer.start()
        model(example()).sum().backward()
        observer.stop()
        observer.unregister_callback()
        nodes = json.loads(Path(file.name).read_text())["nodes"]
    return {"nodes": Counter(node["name"] for node in nodes), "kept": len(kept)}


@state
def memory_history(look):
    model, kept = Model(look), unusual_tensors()
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    model(example()).sum().backward()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    own = [event for event in events if event["action"] != "snapshot"]
    sizes = sorted(event["size"] for event in own)
    return {"events": Counter(event["action"] for event in own), "sizes": sizes, "kept": len(kept)}


main()
os._exit(0)
