"""The running forward or backward pass: its functions keep their tensors, and no variable of them could let go."""

from __future__ import annotations

import re
from dataclasses import replace

from gputui.explain.advice.names import place
from gputui.explain.failure.phase import running_pass
from gputui.model.failure import Failure
from gputui.model.target import Look
from gputui.model.tensors import Storage

_PLACE = re.compile(r"([^:]+):[\d, ]+ in (.+)")
Functions = frozenset[tuple[str, str]]
"""Names of files without their folders, each with that of a function."""


def running_functions(failure: Failure) -> Functions:
    """The functions of the pass that a failure is in; none outside of one."""
    return frozenset((site.file.rpartition("/")[2], site.function) for site in running_pass(failure))


def is_in(functions: Functions, where: str) -> bool:
    """Whether "model.py:12, 15 in forward" is one of these functions."""
    found = _PLACE.fullmatch(where)
    return found is not None and (found[1], found[2]) in functions


def as_activations(look: Look, failure: Failure) -> Look:
    """A look in which variables of the running pass are not named as what keeps its graph."""
    functions = running_functions(failure)
    if look.inventory is None or not functions:
        return look

    def settled(storage: Storage) -> Storage:
        return replace(storage, kept_by="") if is_in(functions, place(storage.kept_by)) else storage

    return replace(look, inventory=replace(look.inventory, storages=tuple(map(settled, look.inventory.storages))))
