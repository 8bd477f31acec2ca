"""Failed requests that PyTorch's allocator did not make: what would have made room, and who owned the tensors."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.failure.remedies import RULES, Case, Rule
from gputui.explain.failure.sentences import PINNED, UNKNOWN
from gputui.model.attached.owners import Keeper
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import Storage
from gputui.model.reading import value_of

SHARED = frozenset({"others", "gradients", "outputs", "variables", "graphs", "no_grad", "checkpointing", "states"})
"""The kinds of rules that apply to such requests, too: memory that PyTorch frees goes to others by `empty_cache()`."""


def _cached(case: Case) -> int:
    return case.device.layout.release.releasable_bytes if case.device and case.device.layout else 0


CACHE = Rule(
    "cache",
    _cached,
    "Call torch.cuda.empty_cache() before it, or limit PyTorch with torch.cuda.set_per_process_memory_fraction():"
    " {bytes} lay in PyTorch's cache, and PyTorch returns that only for requests of its own.",
)
HOST = Rule(
    "pinned",
    lambda case: value_of(case.moment.host.pinned_bytes) or 0,
    "Pin less host memory (pin_memory=False, fewer workers, a smaller prefetch_factor, less offloaded): PyTorch holds"
    " {bytes}, keeps what is freed, and rounds each block up to a power of two. Or allow more: ulimit -l, the"
    " container's memory.",
)
OUTSIDE_RULES = (CACHE, *(rule for rule in RULES if rule.kind in SHARED))


def rules_for(case: Case) -> tuple[Rule, ...]:
    """The rules for a failure, by who asked for the memory."""
    if case.failure.asked_by == PINNED:
        return (HOST,)
    if case.failure.asked_by == UNKNOWN:
        return (*OUTSIDE_RULES, HOST)
    return OUTSIDE_RULES if case.failure.asked_by else RULES


def as_before_the_end(look: Look) -> Look:
    """A look after the end of the program, in which functions keep what the exception that ended it keeps by then."""
    inventory = look.inventory
    if inventory is None:
        return look
    storages = tuple(map(_without_exception, inventory.storages))
    return replace(look, inventory=replace(inventory, storages=storages))


def _without_exception(storage: Storage) -> Storage:
    if storage.keeper is not Keeper.LAST_EXCEPTION:
        return storage
    owner, kept_by = storage.owner.without_exception(), storage.kept_by.without_exception()
    return replace(storage, keeper=Keeper.NONE, owner=owner, kept_by=kept_by)
