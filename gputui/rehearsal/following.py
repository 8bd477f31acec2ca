"""Follows a whole program: in which part of a step it is, what its tensors are, and when it has taken enough steps."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Callable, Iterator
from weakref import WeakKeyDictionary

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .requests import Requests

STEPS = 2
"""The optimizer's states are made in the first step, and the second has its peak with them."""
WRAPPERS = ("DistributedDataParallel", "DataParallel")


class Following:
    """Follows the forward passes of modules, the backward passes, and the steps of optimizers.

    `enough` is called before the third step of an optimizer: until then, the whole second step has run.
    """

    def __init__(self, requests: Requests, enough: Callable[[], None]) -> None:
        self._requests = requests
        self._enough = enough
        self._steps: Counter[int] = Counter()
        self._paths: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._owners: dict[int, str] = {}
        self._entered: list[str] = []
        self._is_in_backward = False
        self._phase = ""

    @property
    def steps(self) -> int:
        """How many steps have been taken, by the optimizer that has taken most."""
        return max(self._steps.values(), default=0)

    def _mark(self, name: str, category: str) -> None:
        if name != self._phase:
            self._phase = name
            self._requests.mark(name, category)

    def _enter(self, module: Any, _inputs: Any) -> None:
        if not self._entered and not self._is_in_backward:
            if module not in self._paths:
                self._name(module)
            self._mark("forward", "activation")
        self._entered.append(self._requests.current_module)
        self._requests.current_module = self._paths.get(module, self._requests.current_module)

    def _leave(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self._entered:
            self._requests.current_module = self._entered.pop()

    def _name(self, root: Any) -> None:
        """Note the paths of a model's modules, and name its tensors; paths of a second model begin with its class."""
        root = root.module if type(root).__name__ in WRAPPERS else root
        prefix = f"{type(root).__name__}." if len(self._paths) else ""
        for path, module in root.named_modules():
            self._paths.setdefault(module, (prefix + path).rstrip("."))
        for path, parameter in root.named_parameters():
            owner = (prefix + path).rpartition(".")[0]
            self._owners[id(parameter)] = owner
            self._requests.name(parameter, "parameter", owner)
        for path, buffer in root.named_buffers():
            self._requests.name(buffer, "buffer", (prefix + path).rpartition(".")[0])

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._steps[id(optimizer)] == STEPS:
            self._enough()
        self._mark("optimizer", "other")
        for parameter in _parameters_of(optimizer):
            owner = self._owners.get(id(parameter))
            self._requests.name(parameter, "parameter", owner)
            self._requests.name(parameter.grad, "gradient", owner)

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._steps[id(optimizer)] += 1
        for parameter in _parameters_of(optimizer):
            values = optimizer.state.get(parameter)
            for value in values.values() if isinstance(values, dict) else ():
                self._requests.name(value, "optimizer_state", self._owners.get(id(parameter)))
        self._mark("loop", "other")

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow the program that runs in the body of the `with`."""
        hooks = torch.nn.modules.module
        handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        backward, gradients = torch.autograd.backward, torch.autograd.grad
        torch.autograd.backward = self._marked(backward)
        torch.autograd.grad = self._marked(gradients)
        try:
            yield
        finally:
            torch.autograd.backward, torch.autograd.grad = backward, gradients
            for handle in handles:
                handle.remove()

    def _marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, marked as a backward pass unless it is called within a forward or another backward pass."""

        def run(*args: Any, **kwargs: Any) -> Any:
            is_outermost = not self._is_in_backward and not self._entered
            if not is_outermost:
                return function(*args, **kwargs)
            self._mark("backward", "activation")
            self._is_in_backward = True
            try:
                return function(*args, **kwargs)
            finally:
                self._is_in_backward = False

        return run


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
