"""What a value of the program is, and what it holds: read without running any of the program's code."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from gputui.probe.attributes import AttributeReader
from gputui.probe.stacks import CO_OPTIMIZED, is_filled, variables
from gputui.probe.torch_types import AnyObject, Module, Torch

SAMPLE = 16
"""If this many first and last elements of a container are all of no interest, so are the others."""
ELEMENTS_AT_ONCE = 2048
"""How many elements of one container a look reads: half from where the last one stopped, half the newest."""
CONTAINERS_AT_ONCE = 128
"""The same for elements that hold others: a data set in memory may have a million dictionaries."""
FARTHEST = 1 << 18
"""No look reads a dictionary or a set beyond this element: getting there takes 3 ms."""

TRACEBACKS_AT_MOST = 100
"""How many frames of one exception's traceback are read: a recursion error has a thousand."""

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

# What a value is. An atom holds nothing of interest; a saved tensor is autograd's own wrapper of one.
ATOM, TENSOR, MODULE, OPTIMIZER, SEQUENCE, MAPPING, FUNCTION, SAVED, EXCEPTION, OBJECT = range(10)
SEQUENCES = (list, tuple, set, frozenset, deque)
ATOMS = (
    *(str, bytes, bytearray, int, float, complex, type(None), type(Ellipsis), range, slice, type),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.GetSetDescriptorType),
    *(types.MappingProxyType, types.GeneratorType, types.CoroutineType, types.TracebackType),
)


class NamedValue(NamedTuple):
    """A value with its name. `where` locates the variable that leads to it: "train.py:23 in step", "" for a global."""

    value: AnyObject
    name: str
    where: str

    @property
    def label(self) -> str:
        return f"{self.name} ({self.where})" if self.where else self.name


class _Kinds(dict[type, int]):
    """What the values of a type are; decided once for each type. `isinstance` would run the code of proxies."""

    def __init__(self, table: list[tuple[int, Any]]) -> None:
        super().__init__({object: ATOM})
        self._table = table

    def __missing__(self, cls: type) -> int:
        kind = next((kind for kind, base in self._table if issubclass(cls, base)), None)
        if kind is None:
            kind = OBJECT if cls.__flags__ & HEAP_TYPE else ATOM
        self[cls] = kind
        return kind


class TypeClassifier:
    """Says what values are by their types."""

    def __init__(self, torch: Torch) -> None:
        saved = getattr(torch._C._autograd, "SavedTensor", torch.Tensor)
        self.kinds = _Kinds(
            [
                (TENSOR, torch.Tensor),
                (MODULE, torch.nn.Module),
                (OPTIMIZER, torch.optim.Optimizer),
                (SAVED, saved),
                (MAPPING, dict),
                (SEQUENCE, SEQUENCES),
                (FUNCTION, (types.FunctionType, types.MethodType, functools.partial)),
                (EXCEPTION, BaseException),
                (ATOM, ATOMS),
            ]
        )

    def kind_of(self, value: AnyObject) -> int:
        """TENSOR, MODULE and so on; ATOM, which is false, if the value holds nothing of interest."""
        return self.kinds[type(value)]

    def any_kind(self, values: list[AnyObject]) -> bool:
        """Whether any of these values is of interest."""
        return any(map(self.kinds.__getitem__, map(type, values)))


HEAP_TYPE = 1 << 9
"""CPython's flag of types made in Python (and a few in C): only objects of those have attributes of the program's."""


class Contents(NamedTuple):
    """What a value holds, each with its part of the name; `next_start` is where the next look has to go on, or 0."""

    items: list[tuple[str, Any]]
    is_whole: bool = True
    next_start: int = 0


class ContentReader:
    """Reads the values inside one. They are copied at once, as other threads may change a container."""

    def __init__(self, classifier: TypeClassifier, attributes: AttributeReader) -> None:
        self._classifier = classifier
        self._attributes = attributes

    def read(self, value: AnyObject, kind: int, start: int = 0) -> Contents:
        """What is inside; of a large container, a part from element `start` on, and its newest elements."""
        return _READERS[kind](self, value, start)

    def module_attributes(self, module: Module, name: str) -> list[NamedValue]:
        """The attributes of a module beside its parameters, buffers, children and simple values."""
        kind_of = self._classifier.kind_of
        attributes = object.__getattribute__(module, "__dict__").copy()
        return [
            NamedValue(value, f"{name}.{key}", "")
            for key, value in attributes.items()
            if kind_of(value) and key not in MODULE_INTERNALS
        ]

    def object(self, value: AnyObject, _start: int) -> Contents:
        return Contents([(f".{name}", attribute) for name, attribute in self._attributes.read(value).items()])

    def optimizer(self, value: AnyObject, start: int) -> Contents:
        items = self.object(value, start).items
        return Contents([(name, attribute) for name, attribute in items if name[1:] not in OPTIMIZER_INTERNALS])

    def function(self, value: AnyObject, _start: int) -> Contents:
        return Contents(_closure(value))

    def saved(self, value: AnyObject, _start: int) -> Contents:
        return Contents([("", value.data)] if hasattr(value, "data") else [])

    def exception(self, value: AnyObject, start: int) -> Contents:
        """Also the local variables of every function that the exception went through, which its traceback keeps."""
        items = self.object(value, start).items
        linked = [(name, EXCEPTION_ATTRIBUTES[name].__get__(value)) for name in ("__cause__", "__context__")]
        items += [(f".{name}", exception) for name, exception in linked if exception is not None]
        traceback = EXCEPTION_ATTRIBUTES["__traceback__"].__get__(value)
        for _ in range(TRACEBACKS_AT_MOST):
            if traceback is None:
                break
            frame = traceback.tb_frame
            if frame.f_code.co_flags & CO_OPTIMIZED:
                prefix = f".__traceback__.{frame.f_code.co_name}"
                items += [(f"{prefix}.{name}", local) for name, local in variables(frame).items()]
            traceback = traceback.tb_next
        return Contents(items)

    def sequence(self, sequence: AnyObject, start: int) -> Contents:
        base = _base(sequence)
        size = base.__len__(sequence)
        if not self._classifier.any_kind(_sample_of_sequence(base, sequence, size)):
            return Contents([])
        at_once = self._at_once(_part(base, sequence, 0, min(size, SAMPLE)))
        spans = _spans(size, start, at_once, is_indexed=base in (list, tuple))
        items = [
            (f"[{number}]", element)
            for first, last in spans
            for number, element in enumerate(_part(base, sequence, first, last), first)
        ]
        return Contents(items, size <= at_once, spans[0][1])

    def mapping(self, mapping: AnyObject, start: int) -> Contents:
        size = dict.__len__(mapping)
        head = list(islice(dict.values(mapping), SAMPLE))
        tail = list(islice(reversed(dict.values(mapping)), SAMPLE)) if size > SAMPLE else []
        if not self._classifier.any_kind(head + tail):
            return Contents([])
        at_once = self._at_once(head)
        if size <= at_once:
            return Contents([(f"[{_key(key)}]", value) for key, value in list(dict.items(mapping))])
        first, last = _spans(size, start, at_once, is_indexed=False)[0]
        items = list(islice(dict.items(mapping), first, last))
        items += islice(reversed(dict.items(mapping)), at_once // 2)
        return Contents([(f"[{_key(key)}]", value) for key, value in items], is_whole=False, next_start=last)

    def _at_once(self, sample: list[Any]) -> int:
        holds_others = any(kind > OPTIMIZER for kind in map(self._classifier.kind_of, sample))
        return CONTAINERS_AT_ONCE if holds_others else ELEMENTS_AT_ONCE


_READERS: dict[int, Callable[[ContentReader, AnyObject, int], Contents]] = {
    OPTIMIZER: ContentReader.optimizer,
    SEQUENCE: ContentReader.sequence,
    MAPPING: ContentReader.mapping,
    FUNCTION: ContentReader.function,
    SAVED: ContentReader.saved,
    EXCEPTION: ContentReader.exception,
    OBJECT: ContentReader.object,
}


def join(prefix: str, key: str) -> str:
    """`trainer` and `.model` become `trainer.model`; for `self` and for variables of a closure, the key is the name."""
    if key[:1] not in ".[":
        return key
    return key[1:] if prefix == "self" and key[:1] == "." else prefix + key


def size_of(value: AnyObject, kind: int) -> int:
    """The number of elements of a container, 0 for anything else."""
    if kind == MAPPING:
        return dict.__len__(value)
    return int(_base(value).__len__(value)) if kind == SEQUENCE else 0


def _spans(size: int, start: int, at_once: int, *, is_indexed: bool) -> list[tuple[int, int]]:
    """The elements to read, as ranges: all, or half of `at_once` from `start` on and half at the end."""
    if size <= at_once:
        return [(0, size)]
    half = at_once // 2
    start = 0 if start >= (size if is_indexed else min(size, FARTHEST)) else start
    spans = [(start, min(start + half, size))]
    return [*spans, (max(size - half, start + half), size)] if is_indexed and start + half < size else spans


def _sample_of_sequence(base: AnyObject, sequence: AnyObject, size: int) -> list[Any]:
    head = _part(base, sequence, 0, min(size, SAMPLE))
    return head + _part(base, sequence, size - SAMPLE, size) if base in (list, tuple) and size > SAMPLE else head


def _part(base: AnyObject, sequence: AnyObject, first: int, last: int) -> list[Any]:
    if base in (list, tuple):
        return list(base.__getitem__(sequence, slice(first, last)))
    return list(islice(base.__iter__(sequence), first, last))


def _key(key: AnyObject) -> str:
    return repr(key) if type(key) in (str, int) else type(key).__name__


def _base(sequence: AnyObject) -> AnyObject:
    cls = type(sequence)
    return cls if cls in SEQUENCES else next(base for base in SEQUENCES if issubclass(cls, base))


def _closure(function: AnyObject) -> list[tuple[str, Any]]:
    """The values that a function carries: variables of enclosing functions, `self`, the arguments of a partial."""
    if type(function) is types.MethodType:
        return [("self", function.__self__), *_closure(function.__func__)]
    if issubclass(type(function), functools.partial):
        called, arguments, keywords = (PARTIAL[key].__get__(function) for key in ("func", "args", "keywords"))
        positional = [(f"[{number}]", argument) for number, argument in enumerate(arguments)]
        return [*_closure(called), *positional, *keywords.items()]
    if type(function) is not types.FunctionType or not function.__closure__:
        return []
    return list(_filled_cells(function))


def _filled_cells(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if is_filled(cell):
            yield name, cell.cell_contents


PARTIAL = vars(functools.partial)
EXCEPTION_ATTRIBUTES: dict[str, Any] = dict(vars(BaseException))
