"""Reads a tensor's gradient and autograd node without a warning, without creating them, while no thread changes them.

Other threads may run in the middle of a stop: those that wait for the interpreter when it begins, and any if the stop
takes longer than it should. Reading a gradient while another thread replaces it, or a graph while a backward pass frees
it, would end the program by SIGSEGV.
"""

from __future__ import annotations

from gputui.probe.objects import stacks
from gputui.probe.objects.threads import Threads, waits_of_this_thread
from gputui.probe.objects.torch_types import Node, Tensor, Torch, tensor_base
from gputui.probe.tensors.wrapped_tensors import UNREADABLE


class GradientReader:
    """Reads through the descriptors of PyTorch's base class, so that no code of a subclass runs."""

    def __init__(self, torch: Torch, at_rest: AtRest) -> None:
        self.at_rest = at_rest
        base = tensor_base(torch)
        self._requires_grad = base.requires_grad.__get__
        self._is_leaf = base.is_leaf.__get__
        self._retains_grad = base.retains_grad.__get__
        self._grad = base.grad.__get__
        self._grad_fn = base.grad_fn.__get__
        self._is_view = base._is_view
        self._version = base._version.__get__
        self._base = base._base.__get__

    def requires_grad(self, tensor: Tensor) -> bool:
        return bool(self._requires_grad(tensor))

    def require_grad(self, tensors: list[Tensor]) -> list[bool]:
        """Whether each of these tensors requires a gradient."""
        return list(map(self._requires_grad, tensors))

    def have_graphs(self, tensors: list[Tensor]) -> list[bool]:
        """`has_graph` of each of these tensors."""
        return [
            requires_grad and not self._is_leaf(tensor)
            for tensor, requires_grad in zip(tensors, map(self._requires_grad, tensors))
        ]

    def has_graph(self, tensor: Tensor) -> bool:
        """Whether the tensor is the result of a recorded operation; makes no Python object for the node."""
        return bool(self._requires_grad(tensor)) and not self._is_leaf(tensor)

    def gradient(self, tensor: Tensor) -> Tensor:
        """The tensor's gradient; None if it has none, if a thread may be replacing it, or if PyTorch would warn."""
        may_have = self._requires_grad(tensor) and (self._is_leaf(tensor) or self._retains_grad(tensor))
        return self._grad(tensor) if may_have and self.at_rest.gradients() else None

    def of_leaves(self, tensors: list[Tensor]) -> list[Tensor | None] | None:
        """The gradient of each of these tensors; None unless all are leaves, [] if a thread may be replacing one."""
        if not all(map(self._is_leaf, tensors)):
            return None
        reading = map(self._grad, tensors)  # made before the check: no thread may run between the check and the list
        return list(reading) if self.at_rest.gradients() else []

    def node(self, tensor: Tensor) -> Node:
        """The node that made the tensor; None for a leaf, and while another thread is in a backward pass.

        For a view that was modified in place, `grad_fn` would create a new node, so this returns the node of the view's
        base, which leads to the same graph.
        """
        if not self._requires_grad(tensor) or not self.at_rest.graph():
            return None
        try:
            if self._is_view(tensor) and self._version(tensor):
                tensor = self._base(tensor)
            return self._grad_fn(tensor)
        except UNREADABLE:
            return None


class AtRest:
    """Whether gradients and graphs stand still during one stop; `threads` are those at its beginning.

    Other threads can only have run while this one waited, so their stacks are read again after each wait.
    """

    def __init__(self, torch: Torch, threads: Threads | None = None) -> None:
        self._torch = torch
        self._threads = threads
        self._waits = -1
        self._is_graph_at_rest = self._are_gradients_at_rest = False

    def graph(self) -> bool:
        """Whether no other thread is in a backward pass, unless that pass waits for this look (as in its own hook)."""
        self._look_again()
        return self._is_graph_at_rest

    def gradients(self) -> bool:
        """Whether no other thread replaces a gradient either."""
        self._look_again()
        return self._are_gradients_at_rest

    def _look_again(self) -> None:
        waits = waits_of_this_thread()
        if waits != self._waits:
            known = self._threads if self._threads is not None and self._threads.waits == waits else None
            is_elsewhere = known.are_in_backward() if known else stacks.another_thread_is_in_backward()
            is_changing = is_elsewhere and not stacks.is_in_backward_here(self._torch)
            self._is_graph_at_rest = not is_changing
            self._are_gradients_at_rest = not is_changing and not stacks.another_thread_sets_attribute()
            self._waits = waits
