"""What a program does otherwise in a rehearsal: it writes no weights, compiles nothing, and reads its data itself."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator

import torch
from torch.utils.data import DataLoader


def answers_for_programs(rehearsal: Any, fail: Callable[[BaseException], None]) -> Iterator[Any]:
    """Owners, names, and what takes their place. `fail` is given what a thread of the program raises."""
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
    """As torch.compile, also as a decorator with arguments; what it is given stays as it is."""

    def compile_nothing(model: Any = None, **_: Any) -> Any:
        rehearsal.is_uncompiled = True
        return model if model is not None else lambda function: function

    return compile_nothing


def _loading_here(init: Callable[..., None]) -> Callable[..., None]:
    """A loader without processes of its own, and without pinned memory."""

    def initialize(self: Any, dataset: Any, *args: Any, **options: Any) -> None:
        init(self, dataset, *args, **options)
        object.__setattr__(self, "num_workers", 0)
        object.__setattr__(self, "prefetch_factor", None)
        object.__setattr__(self, "persistent_workers", False)
        object.__setattr__(self, "pin_memory", False)
        object.__setattr__(self, "timeout", 0)

    return initialize


def _without_data(rehearsal: Any, bootstrap: Callable[[Any], None]) -> Callable[[Any], None]:
    """PyTorch's modes hold for one thread: a new one gets them, too."""

    def _bootstrap_inner(self: Any) -> None:
        with rehearsal.in_thread():
            bootstrap(self)

    return _bootstrap_inner


def _seen(requests: Any, resize: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """FSDP frees and allocates by the size of a storage, which is no operation of PyTorch's."""

    def resize_(self: Any, size: int) -> Any:
        result = resize(self, size)
        if self.device.type == "meta":
            requests.see_storage(self)
        return result

    return resize_
