"""From a program's variables to its modules, optimizers and tensors: level by level, so that the shortest name wins."""

from __future__ import annotations

import functools
import types
from collections import deque
from itertools import islice
from typing import Any, NamedTuple

from gputui.probe.attributes import AttributeReader
from gputui.probe.stacks import Namespace, is_filled
from gputui.probe.torch_types import AnyObject, Module, Torch

LEVELS = 3
"""How deep a variable is looked into: `trainer.optimizers[0]` is at the third level."""
LEVELS_OF_HOOKS = 6
"""From the hook of a checkpoint by its closure to the frame object, its dictionaries and what was computed again."""
ELEMENTS_AT_MOST = 4096
CONTAINERS_AT_MOST = 64
"""Of the containers and objects within one container: a data set in memory may hold a million."""
SAMPLE = 16
"""A container whose first elements hold nothing of interest is taken to hold nothing at all."""
OBJECTS_AT_MOST = 5000

MODULE_INTERNALS = frozenset(
    (
        *("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook"),
        *("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_hooks_with_kwargs"),
        *("_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks"),
        *("_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
    )
)
"""What every module has: its tensors are recorded apart, its hooks hold none."""
OPTIMIZER_INTERNALS = frozenset({"state", "param_groups"})
"""What every optimizer has, recorded apart as well."""

ATOM, TENSOR, MODULE, OPTIMIZER, SEQUENCE, MAPPING, FUNCTION, SAVED, OBJECT = range(9)
SEQUENCES = (list, tuple, set, frozenset, deque)
ATOMS = (
    *(str, bytes, bytearray, int, float, complex, type(None), type(Ellipsis), range, slice, type),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.GetSetDescriptorType),
    *(types.MappingProxyType, types.GeneratorType, types.CoroutineType, types.TracebackType),
)


class NamedValue(NamedTuple):
    """A value and its name: `where` is the place of the variable that leads to it, "" for a global one."""

    value: AnyObject
    name: str
    where: str

    @property
    def label(self) -> str:
        return f"{self.name} ({self.where})" if self.where else self.name


class TypeClassifier:
    """What a value is, decided once for each type. `isinstance` would run the code of proxies and lazy objects."""

    def __init__(self, torch: Torch) -> None:
        optimizer = torch.optim.Optimizer
        saved = getattr(torch._C._autograd, "SavedTensor", torch.Tensor)
        self._table = [
            (TENSOR, torch.Tensor),
            (MODULE, torch.nn.Module),
            (OPTIMIZER, optimizer),
            (SAVED, saved),
            (MAPPING, dict),
            (SEQUENCE, SEQUENCES),
            (FUNCTION, (types.FunctionType, types.MethodType, functools.partial)),
            (ATOM, ATOMS),
        ]
        self._known: dict[type, int] = {object: ATOM}

    def group(self, things: list[AnyObject]) -> dict[int, list[AnyObject]]:
        """The tensors, modules and optimizers among these: of a million objects in a scan."""
        out: dict[int, list[AnyObject]] = {TENSOR: [], MODULE: [], OPTIMIZER: []}
        known, decide = self._known, self._decide
        for thing in things:
            kind = type(thing)
            if kind not in known:
                known[kind] = decide(kind)
            if known[kind] in out:
                out[known[kind]].append(thing)
        return out

    def of(self, value: AnyObject) -> int:
        kind = type(value)
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._decide(kind)
        return known

    def _decide(self, kind: type) -> int:
        for known, base in self._table:
            if issubclass(kind, base):
                return known
        return OBJECT if kind.__flags__ & HEAP_TYPE else ATOM


HEAP_TYPE = 1 << 9
"""Set on types made in Python (and a few in C): only those have attributes of the program's."""


class VariableSearch:
    """What a look at the variables has found, in the order of the look, each object once."""

    def __init__(self, kinds: TypeClassifier, attributes: AttributeReader) -> None:
        self.modules: list[NamedValue] = []
        self.optimizers: list[NamedValue] = []
        self.tensors: list[NamedValue] = []
        self._classifier = kinds
        self._attributes = attributes
        self._seen: dict[int, Any] = {}

    def look(self, namespaces: list[Namespace]) -> None:
        level = [
            NamedValue(value, name, space.where)
            for space in namespaces
            for name, value in space.variables.items()
            if self._classifier.of(value)
        ]
        self.explore(level)

    def explore(self, level: list[NamedValue], levels: int = LEVELS) -> None:
        """Look at these values, and at what they hold, level by level."""
        for _ in range(levels):
            deeper: list[NamedValue] = []
            for named in level:
                self._take(named, deeper)
            if not deeper or len(self._seen) > OBJECTS_AT_MOST:
                break
            level = deeper
        else:
            for named in level:
                self._take(named, [])

    def _take(self, named: NamedValue, deeper: list[NamedValue]) -> None:
        value = named.value
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value  # kept until the look is over, so that no other object gets its id
        kind = self._classifier.of(value)
        if kind == TENSOR:
            self.tensors.append(named)
        elif kind == MODULE:
            self.modules.append(named)
        else:
            if kind == OPTIMIZER:
                self.optimizers.append(named)
            deeper += self._inside(named, kind)

    def _inside(self, named: NamedValue, kind: int) -> list[NamedValue]:
        held = []
        containers = 0
        for key, value in self._contents(named.value, kind):
            known = self._classifier.of(value)
            containers += known > OPTIMIZER
            if known and (known <= OPTIMIZER or containers <= CONTAINERS_AT_MOST):
                held.append(NamedValue(value, join(named.name, key), named.where))
        return held

    def _contents(self, value: AnyObject, kind: int) -> list[tuple[str, Any]]:
        """What a value holds, with the piece of a name that leads there. Copied at once: other threads go on."""
        if kind == MAPPING:
            head = list(islice(dict.values(value), SAMPLE))
            return _items(value) if any(map(self._classifier.of, head)) else []
        if kind == SEQUENCE:
            return _elements(value) if any(map(self._classifier.of, _head(value))) else []
        if kind == FUNCTION:
            return _closure(value)
        if kind == SAVED:
            return [("", value.data)] if hasattr(value, "data") else []
        held = self._attributes.read(value).items()
        return [(f".{name}", inside) for name, inside in held if kind != OPTIMIZER or name not in OPTIMIZER_INTERNALS]

    def module_attributes(self, module: Module, name: str) -> list[NamedValue]:
        """What a module holds beside its parameters, buffers, children and simple values."""
        held = list(object.__getattribute__(module, "__dict__").items())
        kind_of = self._classifier.of
        return [NamedValue(v, f"{name}.{k}", "") for k, v in held if k not in MODULE_INTERNALS and kind_of(v)]

    def held_by(self, values: list[Any]) -> list[NamedValue]:
        """The tensors that can be reached from these and were not met before; they are not counted as variables."""
        known = len(self.tensors)
        self.explore([NamedValue(value, "", "") for value in values if self._classifier.of(value)], LEVELS_OF_HOOKS)
        held = self.tensors[known:]
        del self.tensors[known:]
        return held


def join(prefix: str, key: str) -> str:
    """`trainer` and `.model` to `trainer.model`; an attribute of `self` is known by its own name, as is a closure's."""
    if key[:1] not in ".[":
        return key
    return key[1:] if prefix == "self" and key[:1] == "." else prefix + key


def _items(mapping: AnyObject) -> list[tuple[str, Any]]:
    return [(f"[{_key(key)}]", held) for key, held in list(dict.items(mapping))[:ELEMENTS_AT_MOST]]


def _key(key: AnyObject) -> str:
    return repr(key) if type(key) in (str, int) else type(key).__name__


def _head(sequence: AnyObject) -> list[Any]:
    return list(islice(_base(sequence).__iter__(sequence), SAMPLE))


def _elements(sequence: AnyObject) -> list[tuple[str, Any]]:
    held = list(islice(_base(sequence).__iter__(sequence), ELEMENTS_AT_MOST))
    return [(f"[{number}]", element) for number, element in enumerate(held)]


def _base(sequence: AnyObject) -> AnyObject:
    return next(base for base in SEQUENCES if issubclass(type(sequence), base))


def _closure(function: AnyObject) -> list[tuple[str, Any]]:
    """What a function brings along: enclosing variables, `self`, the arguments of a partial, by their own names."""
    if type(function) is types.MethodType:
        return [("self", function.__self__), *_closure(function.__func__)]
    if issubclass(type(function), functools.partial):
        called, given, named = (PARTIAL[key].__get__(function) for key in ("func", "args", "keywords"))
        return [*_closure(called), *((f"[{n}]", held) for n, held in enumerate(given)), *named.items()]
    if type(function) is not types.FunctionType or not function.__closure__:
        return []
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    return [(name, cell.cell_contents) for name, cell in cells if is_filled(cell)]


PARTIAL = vars(functools.partial)
