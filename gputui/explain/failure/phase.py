"""In which part of a training step a request was made, and what the running pass keeps, as the failing stack shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import Failure, Phase
from gputui.model.attached.owners import NOBODY, OwnerName
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import Storage

AUTOGRAD_THREAD = "pt_autograd"
"""How the names of PyTorch's threads for backward passes begin."""

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python\d+\.\d+/")
_TORCH = re.compile(r"^<|/(site|dist)-packages/torch/|/lib(64)?/python\d+\.\d+/(?!(site|dist)-packages/)")
_OPTIMIZER_FILE = re.compile(r"/torch/optim/|/optimizers?/")
_EVALUATION = re.compile(r"eval|valid|predict|generate|inference|(^|_)test", re.IGNORECASE)
_MODULE_FILE = re.compile(r"/torch/nn/modules/module\.py$")
_CALL = re.compile(r"_call_impl$|_slow_forward$")
"""The functions of that file that run a forward pass; others move a model to a device."""


def phase_of(failure: Failure) -> Phase:
    """The part of the step."""
    stack = failure.stack
    if failure.backward_node or failure.thread.startswith(AUTOGRAD_THREAD):
        return Phase.BACKWARD
    if _is_in_optimizer(stack):
        return Phase.OPTIMIZER
    if any(_EVALUATION.search(site.function) for site in stack if not is_of_library(site)):
        return Phase.EVALUATION
    is_forward = any(map(_is_of_forward, stack)) or any(map(_OPTIMIZER_FILE.search, (site.file for site in stack)))
    return Phase.FORWARD if is_forward else Phase.UNKNOWN


def running_pass(failure: Failure) -> tuple[CallSite, ...]:
    """The innermost lines of the stack that run the pass.

    They end with the outermost module of a forward pass, and before the program's own line of a backward pass.
    """
    phase, stack = phase_of(failure), failure.stack
    if phase is Phase.BACKWARD:
        return tuple(takewhile(is_of_library, stack))
    if phase not in (Phase.FORWARD, Phase.EVALUATION):
        return ()
    last = max((index for index, site in enumerate(stack) if _is_of_forward(site)), default=-1)
    return stack[: last + 1]


def is_of_library(site: CallSite) -> bool:
    """Whether a line is of Python itself or of an installed package, and not of the program."""
    return bool(_LIBRARY.search(site.file))


def is_of_torch(site: CallSite) -> bool:
    """Whether a line is of PyTorch or of Python itself."""
    return bool(_TORCH.search(site.file))


def _is_in_optimizer(stack: Sequence[CallSite]) -> bool:
    """Whether an optimizer computes; one that has called the program's closure for a loss does not."""
    for inner, site in pairwise((None, *stack)):
        if site is not None and _OPTIMIZER_FILE.search(site.file):
            return site.function != "step" or inner is None or is_of_torch(inner)
        if site is not None and _is_of_forward(site):
            return False
    return False


def _is_of_forward(site: CallSite) -> bool:
    is_call = bool(_MODULE_FILE.search(site.file) and _CALL.search(site.function))
    return is_call or site.function == "forward"


Functions = frozenset[tuple[str, str]]
"""Names of files without their folders, each with that of a function."""


def running_functions(failure: Failure) -> Functions:
    """The functions of the pass that a failure is in; none outside of one."""
    return frozenset((site.file.rpartition("/")[2], site.function) for site in running_pass(failure))


def is_of(functions: Functions, name: OwnerName) -> bool:
    """Whether it names a variable of one of these functions, which no exception keeps."""
    return not name.exception and name.function in functions


def as_activations(look: Look, failure: Failure) -> Look:
    """A look in which variables of the running pass are not named as what keeps its graph."""
    functions = running_functions(failure)
    if look.inventory is None or not functions:
        return look

    def settled(storage: Storage) -> Storage:
        return replace(storage, kept_by=NOBODY) if is_of(functions, storage.kept_by) else storage

    return replace(look, inventory=replace(look.inventory, storages=tuple(map(settled, look.inventory.storages))))
