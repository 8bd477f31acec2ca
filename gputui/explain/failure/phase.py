"""In which part of a training step a request failed, and which variables the running pass keeps, from the stack."""

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
"""The beginning of the names of PyTorch's threads for backward passes."""

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python\d+\.\d+/")
_TORCH = re.compile(r"^<|/(site|dist)-packages/torch/|/lib(64)?/python\d+\.\d+/(?!(site|dist)-packages/)")
_OPTIMIZER_FILE = re.compile(r"/torch/optim/|/optimizers?/")
_EVALUATION = re.compile(
    r"(?<![a-zA-Z])(?:(?i:eval(?:uate|uation)?|val(?:id|idate|idation)?|inference|test)(?![a-z])"
    r"|(?i:predict|generate)(?:_step)?$)"
)
"""Whole words of a function's name; what is predicted or generated is named where it is a part of a training step."""
_MODULE_FILE = re.compile(r"/torch/nn/modules/module\.py$")
_CALL = re.compile(r"_call_impl$|_slow_forward$")
"""The functions of module.py that run a forward pass; others of that file move a model to a device."""


def phase_of(failure: Failure) -> Phase:
    """The part of the step in which a request failed."""
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
    """The innermost lines of the stack, which run a forward or backward pass; none outside of a pass.

    They end with the outermost module in forward, and before the first line of the program in backward.
    """
    phase, stack = phase_of(failure), failure.stack
    if phase is Phase.BACKWARD:
        return tuple(takewhile(is_of_library, stack))
    if phase not in (Phase.FORWARD, Phase.EVALUATION):
        return ()
    last = max((index for index, site in enumerate(stack) if _is_of_forward(site)), default=-1)
    return stack[: last + 1]


def is_of_library(site: CallSite) -> bool:
    """Whether a line belongs to Python itself or to an installed package, and not to the program."""
    return bool(_LIBRARY.search(site.file))


def is_of_torch(site: CallSite) -> bool:
    """Whether a line belongs to PyTorch or to Python itself."""
    return bool(_TORCH.search(site.file))


def _is_in_optimizer(stack: Sequence[CallSite]) -> bool:
    """Whether an optimizer computes; not where it has called the program's closure for a loss."""
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
"""Pairs of a file's name, without its folder, and a function's."""


def running_functions(failure: Failure) -> Functions:
    """The functions of the forward or backward pass that a request failed in; none outside of a pass."""
    return frozenset((site.file.rpartition("/")[2], site.function) for site in running_pass(failure))


def is_of(functions: Functions, name: OwnerName) -> bool:
    """Whether a name is that of a variable of one of these functions, and no exception keeps the variable."""
    return not name.exception and name.function in functions


def as_activations(look: Look, failure: Failure) -> Look:
    """A look in which variables of the running pass are not named as keepers: the pass itself needs its graph."""
    functions = running_functions(failure)
    if look.inventory is None or not functions:
        return look

    def settled(storage: Storage) -> Storage:
        return replace(storage, kept_by=NOBODY) if is_of(functions, storage.kept_by) else storage

    return replace(look, inventory=replace(look.inventory, storages=tuple(map(settled, look.inventory.storages))))
