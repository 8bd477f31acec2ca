"""Reads tensors while the main thread is in one of PyTorch's modes, without the mode noticing.

Most of what a look reads never reaches PyTorch's dispatcher. Shapes do while `torch.jit.trace` runs: they become nodes
of its graph, which then crashes the process. So do the parts of sparse tensors and the question whether memory is
pinned: autograd makes nodes for them, with a traceback each in anomaly mode, saved-tensor hooks pack them, and
profilers list them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from gputui.probe.objects.torch_types import AnyObject, Torch

Result = TypeVar("Result")

EXCLUDING = ("_ExcludeDispatchKeyGuard", "_dispatch_keyset_full", "_dispatch_keyset_full_after")


def isolated(torch: Torch, function: Callable[[], Result]) -> Result:
    """What `function` returns when it is called outside all modes of this thread; afterwards they are as before.

    It is a function, not a context manager written in Python: if a signal handler of the program raised in such a
    manager's `__exit__`, the modes would stay suspended.
    """
    core = torch._C
    graph = core._get_tracing_state()
    if graph is None:
        return _outside_modes(core, function)
    tracer = core._parse_dispatch_key("Tracer")
    with core._SetExcludeDispatchKeyGuard(tracer, False):  # False: while this key is excluded, the next line would fail
        try:
            core._set_tracing_state(None)
            return _outside_modes(core, function)
        finally:
            core._set_tracing_state(graph)


def _outside_modes(core: AnyObject, function: Callable[[], Result]) -> Result:
    with core.DisableTorchFunction(), _backends_only(core):
        return _unrecorded(core, function)


def _backends_only(core: AnyObject) -> AnyObject:
    """A context in which operations go straight to a tensor's backend: past modes, autograd, autocast, functorch."""
    if not all(hasattr(core, name) for name in EXCLUDING):  # PyTorch before 2.1
        return core._DisableTorchDispatch()
    return core._ExcludeDispatchKeyGuard(_keys_above_backends(core))


@lru_cache(maxsize=None)
def _keys_above_backends(core: AnyObject) -> AnyObject:
    """The dispatch keys from `Python`, the lowest that is not a backend's, to the highest."""
    key = core.DispatchKey
    above = core._dispatch_keyset_full() - core._dispatch_keyset_full_after(key.Python)
    return above | core.DispatchKeySet(key.PythonDispatcher)


def _unrecorded(core: AnyObject, function: Callable[[], Result]) -> Result:
    """Call `function` hidden from profilers and execution traces.

    PyTorch cannot be asked whether this thread is visible to them: it is, unless a program itself calls the private
    function used here.
    """
    enable = core._autograd._enable_record_function
    try:
        enable(False)
        return function()
    finally:
        enable(True)
