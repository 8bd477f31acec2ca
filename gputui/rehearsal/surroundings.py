"""Replacements in a program: it saves nothing, compiles nothing, and loads its data in its own process."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import DataLoader


def answers_for_programs(rehearsal: Any, fail: Callable[[BaseException], None]) -> Iterator[Any]:
    """Triples for `choices.replace`: an owner, a name, and what replaces it. `fail` gets the errors of threads."""
    yield torch, "save", lambda *_, **__: None
    yield torch, "compile", _uncompiled(rehearsal)
    yield torch.nn.Module, "compile", _uncompiled(rehearsal)
    yield torch.Tensor, "pin_memory", lambda self, *_: self
    yield torch.Tensor, "is_pinned", lambda *_: False
    yield DataLoader, "__init__", _loading_here(DataLoader.__init__)
    thread: Any = threading.Thread
    yield thread, "_bootstrap_inner", _without_data(rehearsal, thread._bootstrap_inner)
    yield threading, "excepthook", lambda raised: fail(raised.exc_value)
    yield torch.UntypedStorage, "resize_", _seen(rehearsal.requests, torch.UntypedStorage.resize_)


def _uncompiled(rehearsal: Any) -> Callable[..., Any]:
    """In place of torch.compile, also as a decorator with arguments: returns its argument unchanged."""

    def compile_nothing(model: Any = None, **_: Any) -> Any:
        rehearsal.is_uncompiled = True
        return model if model is not None else lambda function: function

    return compile_nothing


def _loading_here(init: Callable[..., None]) -> Callable[..., None]:
    """DataLoader.__init__, without worker processes and pinned memory."""

    def initialize(self: Any, dataset: Any, *args: Any, **options: Any) -> None:
        init(self, dataset, *args, **options)
        object.__setattr__(self, "num_workers", 0)
        object.__setattr__(self, "prefetch_factor", None)
        object.__setattr__(self, "persistent_workers", False)
        object.__setattr__(self, "pin_memory", False)
        object.__setattr__(self, "timeout", 0)

    return initialize


def _without_data(rehearsal: Any, bootstrap: Callable[[Any], None]) -> Callable[[Any], None]:
    """The start of a thread, with the modes of the rehearsal: PyTorch's modes hold for one thread only."""

    def _bootstrap_inner(self: Any) -> None:
        with rehearsal.in_thread():
            bootstrap(self)

    return _bootstrap_inner


def _seen(requests: Any, resize: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """`resize_` of a storage, recorded: FSDP frees and allocates with it, and no operation of PyTorch shows that."""

    def resize_(self: Any, size: int) -> Any:
        result = resize(self, size)
        if self.device.type == "meta":
            requests.see_storage(self)
        return result

    return resize_
