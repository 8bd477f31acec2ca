"""Whether gradients and the autograd graph stand still while a look reads them.

Other threads may run in the middle of a stop: those that wait for the interpreter as it begins, or where a stop takes
longer than it should. To read a gradient that another thread replaces, or a graph that its backward pass frees, would
end the program by SIGSEGV.
"""

from __future__ import annotations

import resource

from gputui.probe.objects import stacks
from gputui.probe.objects.torch_types import Torch

_OF_THREAD = getattr(resource, "RUSAGE_THREAD", 1)


class AtRest:
    """Belongs to one stop. What other threads do is looked at again whenever this thread has waited for anything."""

    def __init__(self, torch: Torch) -> None:
        self._torch = torch
        self._waits = -1
        self._is_graph_at_rest = self._are_gradients_at_rest = False

    def graph(self) -> bool:
        """Whether no other thread is in a backward pass, or that pass waits for this look."""
        self._look_again()
        return self._is_graph_at_rest

    def gradients(self) -> bool:
        """Whether no other thread replaces a gradient either."""
        self._look_again()
        return self._are_gradients_at_rest

    def _look_again(self) -> None:
        waits = resource.getrusage(_OF_THREAD).ru_nvcsw  # to wait for the interpreter is to give up the processor
        if waits != self._waits:
            is_changing = stacks.another_thread_is_in_backward() and not stacks.is_in_backward_here(self._torch)
            self._is_graph_at_rest = not is_changing
            self._are_gradients_at_rest = not is_changing and not stacks.another_thread_sets_attribute()
            self._waits = waits
