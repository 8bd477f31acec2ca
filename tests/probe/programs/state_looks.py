"""Shared by the programs about states: looks in the middle of what a program does, and the outcome with and without."""

import gc
import sys
import threading
import warnings
from collections import Counter
from queue import SimpleQueue
from time import perf_counter
from typing import ClassVar

warnings.simplefilter("ignore")

import torch  # noqa: E402
from looking import print_json  # noqa: E402

from gputui.probe.looks.torch_reader import torch_reader  # noqa: E402
from gputui.probe.main_thread import pending_call, untraced  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402

ON_CUDA = torch.cuda.is_available()
DEVICE = "cuda" if ON_CUDA else "cpu"
HALF_AT_LEAST = 1 << 17
"""Elements of a host tensor of which a scan asks whether it is pinned."""
STATES = {}


def state(function):
    """Register a function that runs something in a state of PyTorch, and calls its argument in the middle of it."""
    STATES[function.__name__] = function
    return function


def no_look():
    """Stands for a look in the run that shows what the program does without any."""


class Looks:
    """Takes looks in the main thread as pending calls."""

    def __init__(self):
        self.storages = []
        """How many storages each look has found."""
        self.problems = set()
        self.in_compilation = 0
        self._pending = pending_call.PendingCall()
        self._requests = SimpleQueue()
        self._is_awaited = False
        threading.Thread(target=self._ask, daemon=True).start()

    def __call__(self):
        """Take one look by each method before this function returns, asked for by another thread, as a probe does."""
        for method in ("walk", "scan"):
            self._is_awaited = True
            self._requests.put(method)
            while self._is_awaited:
                pass

    def _ask(self):
        bool(untraced.UntracedCall(self._ask_for_ever))  # a profiler that begins sees what each thread is in

    def _ask_for_ever(self):
        while True:
            method = self._requests.get()
            self._request(lambda method=method: self._read(method))

    def during(self, run):
        """What `run` returns, while another thread keeps asking for looks."""
        ends, took_s = threading.Event(), [0.0]

        def take():
            began = perf_counter()
            self.in_compilation += is_compiling()
            self._read("walk" if len(self.storages) % 8 else "scan")
            took_s[0] = perf_counter() - began

        def ask():
            while not ends.wait(0.001 + took_s[0]):  # the program runs for as long as a look takes
                if not self._pending.is_queued:
                    self._request(take)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            return run()
        finally:
            ends.set()
            thread.join()

    def _request(self, function):
        pending_call.keep_from_compiling(pending_call.PendingCall.__bool__)
        self._pending.request(function)

    def _read(self, method):
        fields = {"problems": [], "statistics": [], "map": None, "settings": None, "inventory": None}
        torch_reader.read(torch, method, fields, Meter(float("inf")), may_walk=True)
        inventory = fields["inventory"]
        self.problems.update(map(str, fields["problems"]), map(str, inventory["problems"] if inventory else ()))
        self.storages.append(len(inventory["storages"]) if inventory else 0)
        self._is_awaited = False


def is_compiling():
    """Whether Dynamo is reading the program's code at this moment."""
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith("_dynamo/convert_frame.py"):
        frame = frame.f_back
    return frame is not None


class Model(torch.nn.Module):
    """A forward pass with looks between its operations."""

    def __init__(self, looks):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
        self.looks = looks
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter) / (number + 1))
        self.to(DEVICE)

    def forward(self, x):
        hidden = self.first(x)
        self.looks()
        hidden = hidden.relu() * x.shape[0]
        self.looks()
        out = self.second(hidden) + hidden.sum()
        self.looks()
        return out.view(out.shape[0], -1)

    def gradients(self):
        return {name: values(parameter.grad) for name, parameter in self.named_parameters()}


class CallsItsDispatch(torch.Tensor):
    """A tensor with memory of its own, for which PyTorch asks the program's code for device, layout and shape."""

    calls: ClassVar[Counter] = Counter()

    @staticmethod
    def __new__(cls, data):
        asked = dict.fromkeys(("dispatch_device", "dispatch_layout"), True)
        return torch.Tensor._make_subclass(cls, data, False, dispatch_sizes_strides_policy="sizes", **asked)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        cls.calls[str(function)] += 1
        return NotImplemented


def unusual_tensors():
    """Tensors of which a look reads more than the address."""
    pinned = [torch.zeros(HALF_AT_LEAST, pin_memory=True)] if ON_CUDA else []
    identity = torch.eye(3, device=DEVICE)
    sparse = [identity.to_sparse().requires_grad_(), identity.to_sparse_csr().requires_grad_()]
    own = [CallsItsDispatch(torch.zeros(11, device=DEVICE)), CallsItsDispatch(torch.zeros(HALF_AT_LEAST))]
    return [*sparse, *own, *pinned, torch.zeros(HALF_AT_LEAST)]


def example():
    return torch.linspace(0, 1, 12, device=DEVICE).view(3, 4)


def values(tensor):
    return [round(value, 4) for value in tensor.detach().double().flatten().tolist()]


def outcome(function):
    """What a state computes with and without looks, and what the looks found."""
    function(no_look)  # once before: the first run in a process allocates workspaces and fills caches
    gc.collect()  # so that no run frees what is left of the last one
    without = function(no_look)
    looks = Looks()
    gc.collect()
    with_looks = function(looks)
    counts = {"looks": len(looks.storages), "in_compilation": looks.in_compilation, "empty": looks.storages.count(0)}
    return {"without": without, "with": with_looks, "problems": sorted(looks.problems), **counts}


def main():
    print_json({name: outcome(STATES[name]) for name in sys.argv[1:]})
