"""Modules, optimizers and tensors, searched from the program's variables level by level: the shortest name wins."""

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
"""How deep a variable is searched: `trainer.optimizers[0]` is at the third level."""
LEVELS_OF_HOOKS = 6
"""The same for a saved-tensor hook: a checkpoint's leads by its closure to a frame object, dictionaries and tensors."""
ELEMENTS_AT_MOST = 4096
CONTAINERS_AT_MOST = 64
"""How many containers and objects within one container are searched: a data set in memory may have a million."""
SAMPLE = 16
"""If this many first elements of a container are all of no interest, so are the others."""
OBJECTS_AT_MOST = 5000

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
ATOM, TENSOR, MODULE, OPTIMIZER, SEQUENCE, MAPPING, FUNCTION, SAVED, OBJECT = range(9)
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


class TypeClassifier:
    """Tells what a value is by its type, once for each type; `isinstance` would run the code of proxies."""

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
        self._kinds: dict[type, int] = {object: ATOM}

    def group(self, objects: list[AnyObject]) -> dict[int, list[AnyObject]]:
        """The tensors, modules and optimizers among these: in a scan, among a million objects."""
        groups: dict[int, list[AnyObject]] = {TENSOR: [], MODULE: [], OPTIMIZER: []}
        kinds, decide = self._kinds, self._decide
        for value in objects:
            cls = type(value)
            if cls not in kinds:
                kinds[cls] = decide(cls)
            if kinds[cls] in groups:
                groups[kinds[cls]].append(value)
        return groups

    def kind_of(self, value: AnyObject) -> int:
        """TENSOR, MODULE and so on; ATOM, which is false, if the value holds nothing of interest."""
        cls = type(value)
        kind = self._kinds.get(cls)
        if kind is None:
            kind = self._kinds[cls] = self._decide(cls)
        return kind

    def _decide(self, cls: type) -> int:
        for kind, base in self._table:
            if issubclass(cls, base):
                return kind
        return OBJECT if cls.__flags__ & HEAP_TYPE else ATOM


HEAP_TYPE = 1 << 9
"""CPython's flag of types made in Python (and a few in C): only objects of those have attributes of the program's."""


class VariableSearch:
    """Modules, optimizers and tensors in the order they are found, each object once."""

    def __init__(self, classifier: TypeClassifier, attributes: AttributeReader) -> None:
        self.modules: list[NamedValue] = []
        self.optimizers: list[NamedValue] = []
        self.tensors: list[NamedValue] = []
        self._classifier = classifier
        self._attributes = attributes
        self._seen: dict[int, Any] = {}

    def search(self, namespaces: list[Namespace]) -> None:
        """Search these variables."""
        level = [
            NamedValue(value, name, space.where)
            for space in namespaces
            for name, value in space.variables.items()
            if self._classifier.kind_of(value)
        ]
        self.explore(level)

    def explore(self, level: list[NamedValue], levels: int = LEVELS) -> None:
        """Search these values and what they hold, level by level."""
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
        self._seen[id(value)] = value  # kept until the search is over, so that no other object gets its id
        kind = self._classifier.kind_of(value)
        if kind == TENSOR:
            self.tensors.append(named)
        elif kind == MODULE:
            self.modules.append(named)
        else:
            if kind == OPTIMIZER:
                self.optimizers.append(named)
            deeper += self._inside(named, kind)

    def _inside(self, named: NamedValue, kind: int) -> list[NamedValue]:
        inside = []
        containers = 0
        for key, value in self._contents(named.value, kind):
            value_kind = self._classifier.kind_of(value)
            containers += value_kind > OPTIMIZER
            if value_kind and (value_kind <= OPTIMIZER or containers <= CONTAINERS_AT_MOST):
                inside.append(NamedValue(value, join(named.name, key), named.where))
        return inside

    def _contents(self, value: AnyObject, kind: int) -> list[tuple[str, Any]]:
        """The values inside one, each with its part of the name. Copied at once, as other threads may change it."""
        if kind == MAPPING:
            head = list(islice(dict.values(value), SAMPLE))
            return _items(value) if any(map(self._classifier.kind_of, head)) else []
        if kind == SEQUENCE:
            return _elements(value) if any(map(self._classifier.kind_of, _head(value))) else []
        if kind == FUNCTION:
            return _closure(value)
        if kind == SAVED:
            return [("", value.data)] if hasattr(value, "data") else []
        attributes = self._attributes.read(value).items()
        internals = OPTIMIZER_INTERNALS if kind == OPTIMIZER else ()
        return [(f".{name}", attribute) for name, attribute in attributes if name not in internals]

    def module_attributes(self, module: Module, name: str) -> list[NamedValue]:
        """The attributes of a module beside its parameters, buffers, children and simple values."""
        attributes = list(object.__getattribute__(module, "__dict__").items())
        kind_of = self._classifier.kind_of
        return [NamedValue(v, f"{name}.{k}", "") for k, v in attributes if k not in MODULE_INTERNALS and kind_of(v)]

    def held_by(self, values: list[Any]) -> list[NamedValue]:
        """The tensors that these values lead to and that were not found before; they are not added to `tensors`."""
        known = len(self.tensors)
        level = [NamedValue(value, "", "") for value in values if self._classifier.kind_of(value)]
        self.explore(level, LEVELS_OF_HOOKS)
        held = self.tensors[known:]
        del self.tensors[known:]
        return held


def join(prefix: str, key: str) -> str:
    """`trainer` and `.model` become `trainer.model`; for `self` and for variables of a closure, the key is the name."""
    if key[:1] not in ".[":
        return key
    return key[1:] if prefix == "self" and key[:1] == "." else prefix + key


def _items(mapping: AnyObject) -> list[tuple[str, Any]]:
    return [(f"[{_key(key)}]", value) for key, value in list(dict.items(mapping))[:ELEMENTS_AT_MOST]]


def _key(key: AnyObject) -> str:
    return repr(key) if type(key) in (str, int) else type(key).__name__


def _head(sequence: AnyObject) -> list[Any]:
    return list(islice(_base(sequence).__iter__(sequence), SAMPLE))


def _elements(sequence: AnyObject) -> list[tuple[str, Any]]:
    elements = list(islice(_base(sequence).__iter__(sequence), ELEMENTS_AT_MOST))
    return [(f"[{number}]", element) for number, element in enumerate(elements)]


def _base(sequence: AnyObject) -> AnyObject:
    return next(base for base in SEQUENCES if issubclass(type(sequence), base))


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
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    return [(name, cell.cell_contents) for name, cell in cells if is_filled(cell)]


PARTIAL = vars(functools.partial)
