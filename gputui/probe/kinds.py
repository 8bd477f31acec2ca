"""What a value of the program is, told by its type alone: `isinstance` would run the code of proxies."""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Iterable
from itertools import compress
from operator import itemgetter
from typing import Any, Dict

from gputui.probe import opaque, plain, suspended
from gputui.probe.stacks import is_library, is_of_package
from gputui.probe.torch_types import AnyObject, Torch

# What a value is. An atom holds nothing of interest; a saved tensor is autograd's own wrapper of one.
ATOM, TENSOR, MODULE, EXCEPTION, GENERATOR, OPTIMIZER, SEQUENCE, MAPPING, FUNCTION, SAVED, OPAQUE, OBJECT = range(12)
SEQUENCES = (list, tuple, set, frozenset, deque)
ATOMS = (
    *(str, bytes, bytearray, int, float, complex, type(None), type(Ellipsis), range, slice, type),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.GetSetDescriptorType),
    types.TracebackType,
)

_second = itemgetter(1)


def is_lasting(cls: type) -> bool:
    """Whether a class stays as long as the process: one made in C, or a variable of an installed module."""
    if not plain.flags_of(cls) & plain.HEAP_TYPE:
        return True
    module = dict.get(sys.modules, plain.module_name(cls))
    if not issubclass(type(module), types.ModuleType):
        return False
    variables = plain.module_variables(module)
    is_its = dict.get(variables, plain.class_name(cls)) is cls
    return is_its and (is_library(variables) or is_of_package(variables))


class _Kinds:
    """What the values of a type are; decided once for each type."""

    def __init__(self, table: list[tuple[int, tuple[type, ...]]]) -> None:
        self._known: dict[int, tuple[type, int]] = {id(object): (object, ATOM)}
        """By the id of the type, which is kept so that no other type gets its id."""
        self._kinds = [kind for kind, _ in table]
        self._ranks = {id(base): rank for rank, (_, bases) in reversed(list(enumerate(table))) for base in bases}
        """The place of each base in the table: the first of those that a class has says what its values are."""

    def of(self, cls: type) -> int:
        known = self._known.get(id(cls))
        if known is not None:
            return known[1]
        ranks = [rank for base in plain.mro_of(cls) if (rank := self._ranks.get(id(base))) is not None]
        without_rank = OBJECT if plain.flags_of(cls) & plain.HEAP_TYPE else ATOM
        kind = self._kinds[min(ranks)] if ranks else without_rank
        self._known[id(cls)] = cls, kind
        return kind


class _PlainKinds(Dict[type, int]):
    """The same by type, for types that can be hashed: a lookup that C code can do for a million objects.

    What is above `highest` counts as an atom. The kinds of classes that last go into `lasting`, for the next look.
    """

    def __init__(self, kinds: _Kinds, highest: int, lasting: dict[type, int]) -> None:
        super().__init__(lasting)
        self._kinds, self._highest, self._lasting = kinds, highest, lasting

    def __missing__(self, cls: type) -> int:
        self[cls] = kind = self.of(cls)
        if is_lasting(cls):
            self._lasting[cls] = kind
        return kind

    def of(self, cls: type) -> int:
        """For any type."""
        kind = self._kinds.of(cls)
        return kind if kind <= self._highest else ATOM


_lasting_kinds: dict[type, int] = {}
_lasting_finds: dict[type, int] = {}
"""The kinds of classes that stay as long as the process, from earlier looks."""


class TypeClassifier:
    """Says what values are by their types. Belongs to one look."""

    def __init__(self, torch: Torch) -> None:
        plain.look_at_metaclasses()
        saved = getattr(torch._C._autograd, "SavedTensor", torch.Tensor)
        self._kinds = _Kinds(
            [
                (TENSOR, (torch.Tensor,)),
                (MODULE, (torch.nn.Module,)),
                (OPTIMIZER, (torch.optim.Optimizer,)),
                (SAVED, (saved,)),
                (EXCEPTION, (BaseException,)),
                (MAPPING, (dict,)),
                (SEQUENCE, SEQUENCES),
                (FUNCTION, (types.FunctionType, types.MethodType, functools.partial)),
                (GENERATOR, suspended.TYPES),
                (OPAQUE, opaque.types()),
                (OBJECT, (types.SimpleNamespace,)),
                (ATOM, ATOMS),
            ]
        )
        self._plain = _PlainKinds(self._kinds, OBJECT, _lasting_kinds)
        self._plain_finds = _PlainKinds(self._kinds, OPTIMIZER, _lasting_finds)

    def kind_of(self, value: AnyObject) -> int:
        """TENSOR, MODULE and so on; ATOM, which is false, if the value holds nothing of interest."""
        cls = type(value)
        return self._plain[cls] if type(cls) is type else self._kinds.of(cls)

    def kinds_of(self, values: Iterable[AnyObject]) -> list[int]:
        """The kind of each of these values."""
        return self._looked_up(list(map(type, values)), self._plain)

    def finds_of(self, values: Iterable[AnyObject]) -> list[int]:
        """The same for tensors, modules, exceptions, generators and optimizers; anything else counts as an atom."""
        return self._looked_up(list(map(type, values)), self._plain_finds)

    def of_interest(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Those of these pairs whose second value is of interest."""
        kinds = self.kinds_of(map(_second, pairs))
        return list(compress(pairs, kinds)) if any(kinds) else []

    def _looked_up(self, classes: list[type], by_type: _PlainKinds) -> list[int]:
        if plain.are_plain(classes):
            return list(map(by_type.__getitem__, classes))
        idents = list(map(id, classes))
        kinds = {ident: by_type.of(cls) for ident, cls in dict(zip(idents, classes)).items()}
        return list(map(kinds.__getitem__, idents))
