"""Memory that no variable of the program leads to: exceptions, displayed values, old optimizers or cycles keep it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import PART_BYTES, TIGHT_SHARE
from gputui.explain.memory.collection import Collection, collection_of
from gputui.explain.owners.names import counted, exceptions_words, family, listed
from gputui.model.attached.analysis import Blocker, Finding
from gputui.model.attached.owners import KEEPERS, Keeper, OwnerName
from gputui.model.attached.target import CycleMaker
from gputui.model.attached.tensors import WEIGHTS
from gputui.model.weight import Weight
from gputui.units import format_bytes

EVIDENCE = 4
"""How many of the largest tensors a finding names."""

IN_LIST = (
    "Keep str(error) instead of the exceptions in {}: each has a traceback, which keeps the local variables of every"
    " function that it went through."
)
FORGET_OUTPUTS = "get_ipython().displayhook.flush(); get_ipython().user_ns_hidden.update(_='', __='', ___='')"

BREAKS = {
    CycleMaker.FUNCTION: "let {}() use its argument, or weakref.ref(self), instead of self",
    CycleMaker.IMPORT: "import at the top of the program what was imported while {}() ran, and call gc.collect() there:"
    " the first optimizer imports torch._dynamo, which leaves the frames of its callers in a cycle",
    CycleMaker.FRAME: "delete the variable of {}() that holds the exception (del), best in a finally block",
    CycleMaker.OBJECTS: "make one of the references a weakref.ref, or set it to None before you let the object go",
}
"""How to avoid the cycle, by what makes it; `{}` stands for the name of the function that makes it."""
_VARIABLE = re.compile(r"[\w.]+")


def _collection(situation: Situation) -> Collection | None:
    look = situation.moment.look
    return collection_of(situation.moment.garbage, look.map if look else None, situation.device.index)


def kept_by_exception(situation: Situation) -> Finding | None:
    """An exception keeps the local variables of every function it came through."""
    collection = _collection(situation)
    collected = collection.addresses if collection else frozenset()
    blockers = [blocker for blocker in _kept(situation, "kept_by_exception") if blocker.block.address not in collected]
    if not blockers:
        return None
    locals_ = [blocker.owner.name for blocker in blockers if blocker.owner.name.place]
    exceptions = {name.exception for name in locals_}
    functions = dict.fromkeys(f"{name.function[1]}()" for name in locals_)
    statistics = situation.device.statistics
    is_missed = bool(statistics.num_ooms) and _bytes(blockers) > TIGHT_SHARE * statistics.allocated_bytes
    which = exceptions_words(locals_) or counted(len(exceptions), "exception")
    keeps = f"{which[0].upper()}{which[1:]} {'keeps' if len(exceptions) == 1 else 'keep'}"
    return _finding(
        f"{keeps if exceptions else 'An exception keeps'} the locals of {listed(functions) or 'functions'}:",
        blockers,
        _forget_exception(min((blocker.owner.keeper for blocker in blockers), key=list(KEEPERS).index), locals_),
        Weight.PROBLEM if is_missed else Weight.ADVICE,
    )


def _forget_exception(keeper: Keeper, locals_: Sequence[OwnerName]) -> str:
    """What frees the locals, with the name of the variable that holds the exceptions, if there is just one."""
    holders = {name.holder for name in locals_}
    lists = {name.collection_of_holder for name in locals_}
    of_list = lists.pop() if len(lists) == 1 else ""
    if keeper is Keeper.EXCEPTION and of_list and len(holders) > 1:
        return IN_LIST.format(of_list)
    name = holders.pop() if len(holders) == 1 else ""
    if keeper is not Keeper.EXCEPTION or not _VARIABLE.fullmatch(name):
        return keeper.facts.cure
    return (
        f"Delete {name} (del {name}) and keep str({name}), or leave the except block before you try again;"
        f" traceback.clear_frames({name}.__traceback__) frees the locals and keeps the message."
    )


def kept_by_output(situation: Situation) -> Finding | None:
    """A notebook, or Python's prompt, keeps values that it has displayed."""
    blockers = _kept(situation, "kept_by_output")
    if not blockers:
        return None
    outputs = dict(blocker.owner.name.output for blocker in blockers)
    outputs.pop("", None)
    cure = blockers[0].owner.keeper.facts.cure
    if not cure:
        displayed = next(((name, cell) for name, cell in outputs.items() if cell), None)
        first = f"%xdel _{displayed[1]} frees {displayed[0]}. " if displayed else ""
        cure = f"{first}To free all outputs: {FORGET_OUTPUTS}. A cell that ends with ; keeps no output."
    return _finding(f"{listed(outputs)} {'keeps' if len(outputs) == 1 else 'keep'}", blockers, cure)


def kept_by_optimizer(situation: Situation) -> Finding | None:
    """A model was created again, and an optimizer keeps the parameters of the old model."""
    layout, blockers = situation.device.layout, _kept(situation, "kept_by_optimizer")
    if layout is None or not blockers:
        return None
    new = {
        (storage.shape, storage.dtype)
        for storage in layout.storages
        if storage.category in WEIGHTS and not storage.keeper.value
    }
    old = [blocker.owner for blocker in blockers if blocker.owner.category in WEIGHTS]
    if not old or not all((owner.shape, owner.dtype) in new for owner in old):
        return None  # the probe has not found their modules: no model was replaced
    names = dict.fromkeys(owner.name.state.optimizer or owner.name for owner in old)
    title = f"{listed(names)} {'keeps' if len(names) == 1 else 'keep'} the parameters of a model that was replaced:"
    return _finding(title, blockers, Keeper.OPTIMIZER.facts.cure)


def kept_by_cycle(situation: Situation) -> Finding | None:
    """Objects that refer to each other, and to which nothing else refers, wait for Python's garbage collector."""
    collection = _collection(situation)
    blockers = _kept(situation, "kept_by_cycle") if collection is None else _at(situation, collection.addresses)
    if not blockers:
        return None
    if collection is None:
        told = blockers[0].owner.name  # `start`: its objects; `of`: its maker; `part`: the function
        maker = next((maker for maker in CycleMaker if maker.value == told.of), CycleMaker.OBJECTS)
        remedy = _break_cycle(maker, told.part)
        finding = _finding("Only reference cycles keep", blockers, remedy, Weight.PROBLEM)
        about = format_bytes(finding.bytes)
        title = f"gc.collect() would free about {about}, which only reference cycles keep. They are of {told.start}."
        return replace(finding, title=title)
    cycles = collection.groups[0].cycles
    finding = _finding("", blockers, _break_cycle(cycles.maker, cycles.function), Weight.PROBLEM)
    evidence = tuple(f"{group.words}: {format_bytes(group.bytes)}." for group in collection.groups[:EVIDENCE])
    title = f"gc.collect() would free {collection.words}."
    return replace(finding, title=title, evidence=evidence, bytes=collection.freed_bytes)


def told(keeper: Keeper) -> Callable[[Situation], Finding | None]:
    """Makes the rule for a keeper with a `title` in `KEEPERS`: what the keeper keeps, and how to free it."""
    facts = keeper.facts

    def find(situation: Situation) -> Finding | None:
        blockers = _kept(situation, facts.rule)
        if not blockers:
            return None
        calls = situation.moment.inventory.creates_graph if situation.moment.inventory else ()
        title = facts.title.format(name=blockers[0].owner.name, line=f" ({calls[0]})" if len(calls) == 1 else "")
        cure = facts.cure.format(bytes=format_bytes(_bytes(blockers)))
        finding = _finding(title, blockers, cure, Weight.PROBLEM if facts.is_mistake else Weight.ADVICE)
        return replace(finding, evidence=(facts.evidence,)) if facts.evidence else finding

    find.__name__ = facts.rule
    return find


def _break_cycle(maker: CycleMaker, function: str) -> str:
    """How to free what the cycle keeps now, and how to make no such cycle."""
    cure = BREAKS[maker].format(function)
    return f"The action x runs gc.collect() now. So that it is not needed, {cure}."


def _kept(situation: Situation, rule: str) -> list[Blocker]:
    """The blocks that keepers of this rule keep alive, the largest first; [] if they are below `PART_BYTES`."""
    keepers = [keeper for keeper in KEEPERS if keeper.facts.rule == rule]
    return _largest_first(situation, lambda blocker: blocker.owner.keeper in keepers)


def _at(situation: Situation, addresses: frozenset[int]) -> list[Blocker]:
    """The blocks at these addresses, the largest first; [] if they are below `PART_BYTES`."""
    return _largest_first(situation, lambda blocker: blocker.block.address in addresses)


def _largest_first(situation: Situation, is_meant: Callable[[Blocker], bool]) -> list[Blocker]:
    layout = situation.device.layout
    found = list(filter(is_meant, layout.blockers)) if layout else []
    return sorted(found, key=lambda blocker: -blocker.block.size_bytes) if _bytes(found) >= PART_BYTES else []


def _bytes(blockers: Sequence[Blocker]) -> int:
    return sum(blocker.block.size_bytes for blocker in blockers)


def _finding(title: str, blockers: Sequence[Blocker], remedy: str, weight: Weight = Weight.ADVICE) -> Finding:
    kept_bytes = _bytes(blockers)
    sizes: Counter[str] = Counter()
    for blocker in blockers:
        sizes[_what(blocker)] += blocker.block.size_bytes
    largest = sizes.most_common(EVIDENCE)
    rest = kept_bytes - sum(size for _, size in largest)
    evidence = [f"{what}: {format_bytes(size)}." for what, size in largest]
    return Finding(
        weight=weight,
        title=f"{title} {format_bytes(kept_bytes)}.",
        evidence=(*evidence, *([f"Others: {format_bytes(rest)}."] if rest else [])),
        remedy=remedy,
        bytes=kept_bytes,
        screen="tensors",
        addresses=tuple(blocker.block.address for blocker in blockers),
        owners=tuple(dict.fromkeys(blocker.owner.name for blocker in blockers)),
    )


def _what(blocker: Blocker) -> str:
    """The line of evidence a block belongs to: "hidden (train.py:23 in train)"; layers of a model share one."""
    owner = blocker.owner
    if owner.keeper is Keeper.CYCLE:
        return owner.name.rstrip(".")
    line = owner.name.place
    if owner.saved_by and not line:
        return "Saved for a backward pass"
    return f"{family(owner.name)} ({line})" if line else family(owner.name)
