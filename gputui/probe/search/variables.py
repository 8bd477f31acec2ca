"""What a value of the program holds: read without running any of the program's code."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from itertools import compress, islice, repeat
from operator import not_
from typing import Any, List, NamedTuple, Union

from gputui.probe.objects import opaque, plain
from gputui.probe.objects.attributes import AttributeReader, module_dict
from gputui.probe.objects.functions import closure_of
from gputui.probe.objects.kinds import (
    FUNCTION,
    GENERATOR,
    LEADING,
    MAPPING,
    OBJECT,
    OPAQUE,
    OPTIMIZER,
    SAVED,
    SEQUENCE,
    TENSOR,
    TypeClassifier,
    base_of,
)
from gputui.probe.objects.torch_types import AnyObject
from gputui.protocol.owners import Owner, Where, owner_of

SAMPLE = 16
"""If this many first and last elements of a container are all of no interest, so are the others."""
ELEMENTS_AT_ONCE = 4096
"""How many elements of one container a look reads: half from where the last look stopped, half the newest."""
CONTAINERS_AT_ONCE, CONTAINERS_AT_LEAST = 128, 16
"""The same for elements that are containers or objects: a data set in memory may have a million dictionaries. After a
search without time for what they hold, the next one reads fewer, so that it comes to that."""
MANY = 8
"""From so many values on, tensors are taken in loops of C."""
FARTHEST = 1 << 18
"""No look reads the older elements of a dictionary or a set beyond this one: getting there takes 3 ms."""

MODULE_INTERNALS = frozenset(
    (
        *("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook"),
        *("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_hooks_with_kwargs"),
        *("_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks"),
        *("_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    )
)
"""Attributes that every module has: its tensors are recorded by `model_states`, its hooks hold none."""
OPTIMIZER_INTERNALS = frozenset({"state", "param_groups"})
"""Attributes that every optimizer has, recorded by `model_states` as well."""


class NamedValue(NamedTuple):
    """A value with its name. `where` locates the variable that leads to it.

    `keeper` says what keeps it alive if no variable of the program does: see `keepers`.
    """

    value: AnyObject
    name: str
    where: Where
    keeper: str = ""

    @property
    def owner(self) -> Owner:
        return owner_of(self.name, self.where)


class Elements(NamedTuple):
    """The tensors of a list, which are named only once they are known to be new.

    That saves time: an optimizer's step has each parameter in some ten lists.
    """

    holder: NamedValue
    tensors: Sequence[AnyObject]

    def named(self, are_wanted: Iterable[bool] | None = None) -> list[NamedValue]:
        """All elements with their names, or those that are wanted."""
        _, name, where, keeper = self.holder
        wanted = enumerate(self.tensors) if are_wanted is None else compress(enumerate(self.tensors), are_wanted)
        return [NamedValue(tensor, f"{name}[{number}]", where, keeper) for number, tensor in wanted]


Level = Union[List[NamedValue], Elements]
"""What one object holds, named or still to be named."""


def new_tensors(values: Level, classifier: TypeClassifier, seen: Container[int]) -> list[NamedValue] | None:
    """Those of these values that were not seen before, found in loops of C; None if they are to be taken one by one.

    That is so where there are few values, where not all are tensors, or where one comes twice.
    """
    if isinstance(values, Elements):
        tensors: Sequence[AnyObject] = values.tensors
    else:
        tensors = [named.value for named in values]
        if len(tensors) < MANY or set(classifier.kinds_of(tensors)) != {TENSOR}:
            return None
    idents = list(map(id, tensors))
    if len(set(idents)) < len(idents):
        return None
    are_new = map(not_, map(seen.__contains__, idents))
    return values.named(are_new) if isinstance(values, Elements) else list(compress(values, are_new))


class Contents(NamedTuple):
    """What a value holds that is of interest, each with its part of the name.

    `read`: how many elements were gone through; `next_start`: the element with which the next look goes on; `tensors`:
    in place of `items`, all elements of a container of nothing but tensors.
    """

    items: list[tuple[str, Any]]
    read: int = 0
    is_whole: bool = True
    next_start: int = 0
    tensors: Sequence[AnyObject] = ()


class ContentReader:
    """Reads what a value holds. A container's elements are copied at once, as other threads may change it."""

    def __init__(self, classifier: TypeClassifier, attributes: AttributeReader, containers_at_once: int) -> None:
        self._classifier = classifier
        self._attributes = attributes
        self._containers_at_once = containers_at_once

    def read(self, value: AnyObject, kind: int, start: int = 0) -> Contents:
        """What a value holds; of a large container, a part from element `start` on, and its newest elements."""
        return _READERS[kind](self, value, start)

    def module_attributes(self, module: NamedValue) -> list[NamedValue]:
        """The attributes of a module beside its parameters, buffers, children and simple values."""
        attributes = module_dict(module.value)
        if plain.has_plain_names(attributes):  # most have nothing but what every module has, and numbers
            others = map(attributes.__getitem__, attributes.keys() - MODULE_INTERNALS)
            if not any(self._classifier.kinds_of(others)):
                return []
        own = self._classifier.of_interest(list(dict.items(attributes)))
        named = ((plain.name_of(key), value) for key, value in own)
        return [
            NamedValue(value, f"{module.name}.{name}", module.where, module.keeper)
            for name, value in named
            if name is not None and name not in MODULE_INTERNALS
        ]

    def object(self, value: AnyObject, _start: int) -> Contents:
        named = self._classifier.of_interest(self._attributes.items(value))
        inner = self._attributes.inner_of(value) if named else ""
        names = [plain.name_of(key) for key, _ in named]
        items = [("" if name == inner else f".{name}", attribute) for name, (_, attribute) in zip(names, named) if name]
        return Contents(items, len(named))

    def optimizer(self, value: AnyObject, start: int) -> Contents:
        items = self.object(value, start).items
        return Contents([(name, attribute) for name, attribute in items if name[1:] not in OPTIMIZER_INTERNALS])

    def function(self, value: AnyObject, _start: int) -> Contents:
        return Contents(self._classifier.of_interest(closure_of(value)))

    def opaque(self, value: AnyObject, start: int) -> Contents:
        cache = opaque.cache_of(value) if type(value) is opaque.LRU_CACHE else {}
        if cache and not opaque.has_links(cache):
            return self.mapping(cache, start)
        items = self._classifier.of_interest(opaque.contents(value))
        return Contents(items, len(items))

    def generator(self, value: AnyObject, _start: int) -> Contents:
        items = [
            (f".{name}", variable) for name, variable in self._classifier.of_interest(opaque.variables_in([value])[0])
        ]
        return Contents(items, len(items))

    def saved(self, value: AnyObject, _start: int) -> Contents:
        return Contents([("", value.data)] if hasattr(value, "data") else [])

    def sequence(self, sequence: AnyObject, start: int) -> Contents:
        base = base_of(sequence)
        size = base.__len__(sequence)
        if size > SAMPLE and not any(self._classifier.kinds_of(_sample_of_sequence(base, sequence, size))):
            return Contents([])
        at_once = self._at_once(_part(base, sequence, 0, SAMPLE)) if size > SAMPLE else SAMPLE
        if size <= at_once:
            elements = _part(base, sequence, 0, size)
            if size >= MANY and set(self._classifier.kinds_of(elements)) == {TENSOR}:
                return Contents([], size, tensors=elements)
            return Contents(self._numbered(elements, 0), size)
        half, is_indexed = at_once // 2, base in (list, tuple)
        older = size - half if is_indexed else min(size, FARTHEST)
        first, last, next_start = _turn(start, half, older)
        spans = [(first, last), *([(older, size)] if is_indexed else [])]
        items = [item for first, last in spans for item in self._numbered(_part(base, sequence, first, last), first)]
        return Contents(items, sum(last - first for first, last in spans), is_whole=False, next_start=next_start)

    def mapping(self, mapping: AnyObject, start: int) -> Contents:
        size = dict.__len__(mapping)
        if size <= SAMPLE:
            return Contents(self._keyed(list(dict.items(mapping))), size)
        head = list(islice(dict.values(mapping), SAMPLE))
        tail = list(islice(reversed(dict.values(mapping)), SAMPLE))
        if not any(self._classifier.kinds_of(head + tail)):
            return Contents([])
        at_once = self._at_once(head)
        if size <= at_once:
            return Contents(self._keyed(list(dict.items(mapping))), size)
        half = at_once // 2
        first, last, next_start = _turn(start, half, min(size - half, FARTHEST))
        items = list(islice(dict.items(mapping), first, last))
        items += islice(reversed(dict.items(mapping)), half)
        return Contents(self._keyed(items), len(items), is_whole=False, next_start=next_start)

    def _numbered(self, elements: list[Any], first: int) -> list[tuple[str, Any]]:
        """The elements of interest, each with its number, `[3]`."""
        kinds = self._classifier.kinds_of(elements)
        if not any(kinds):
            return []
        return [(f"[{number}]", element) for number, element in compress(enumerate(elements, first), kinds)]

    def _keyed(self, items: list[tuple[Any, Any]]) -> list[tuple[str, Any]]:
        return [(f"[{plain.key_text(key)}]", value) for key, value in self._classifier.of_interest(items)]

    def _at_once(self, sample: list[Any]) -> int:
        holds_others = not LEADING.isdisjoint(self._classifier.kinds_of(sample))
        return self._containers_at_once if holds_others else ELEMENTS_AT_ONCE


_READERS: dict[int, Callable[[ContentReader, AnyObject, int], Contents]] = {
    GENERATOR: ContentReader.generator,
    OPTIMIZER: ContentReader.optimizer,
    SEQUENCE: ContentReader.sequence,
    MAPPING: ContentReader.mapping,
    FUNCTION: ContentReader.function,
    SAVED: ContentReader.saved,
    OPAQUE: ContentReader.opaque,
    OBJECT: ContentReader.object,
}


def named_inside(holder: NamedValue, contents: Contents) -> list[NamedValue] | Elements:
    """What a value holds, named: each name is that of the holder, and the value's own part."""
    if contents.tensors:
        return Elements(holder, contents.tensors)
    _, name, where, keeper = holder
    items = contents.items
    keys = [key for key, _ in items]
    if all(map(str.startswith, keys, repeat("["))):
        rows = zip([element for _, element in items], map(name.__add__, keys), repeat(where), repeat(keeper))
        return list(map(partial(tuple.__new__, NamedValue), rows))
    return [NamedValue(element, join(name, key), where, keeper) for key, element in items]


def join(prefix: str, key: str) -> str:
    """`trainer` and `.model` become `trainer.model`; for `self` and for variables of a closure, the key is the name.

    A variable of a function in a container is `callbacks[3].loss`, and the object of a method there `callbacks[3]`.
    """
    if key[:1] not in ".[":
        return key if not prefix.endswith("]") else prefix if key == "self" else f"{prefix}.{key}"
    return key[1:] if prefix == "self" and key[:1] == "." else prefix + key


def size_of(value: AnyObject, kind: int) -> int:
    """The number of elements of a container, 0 for anything else."""
    if kind == MAPPING:
        return dict.__len__(value)
    if kind == OPAQUE:
        return len(opaque.cache_of(value)) if type(value) is opaque.LRU_CACHE else 0
    return int(base_of(value).__len__(value)) if kind == SEQUENCE else 0


def _turn(start: int, at_once: int, end: int) -> tuple[int, int, int]:
    """The first element that a look reads, the one before which it stops, and the one with which the next look goes on.

    After a look that came to `end`, the next begins at 0: behind `end` are only the few elements added since.
    """
    first = start if start < end else 0
    last = min(first + at_once, end)
    return first, last, last if last < end else 0


def _sample_of_sequence(base: AnyObject, sequence: AnyObject, size: int) -> list[Any]:
    head = _part(base, sequence, 0, min(size, SAMPLE))
    return head + _part(base, sequence, size - SAMPLE, size) if base in (list, tuple) and size > SAMPLE else head


def _part(base: AnyObject, sequence: AnyObject, first: int, last: int) -> list[Any]:
    if base in (list, tuple):
        return list(base.__getitem__(sequence, slice(first, last)))
    return list(islice(base.__iter__(sequence), first, last))
