"""What a value of the program is, told by its type alone: `isinstance` would run the code of proxies."""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable
from itertools import compress
from operator import itemgetter
from typing import Any, Dict

from gputui.probe.objects import opaque, plain
from gputui.probe.objects.stacks import is_library, is_of_package
from gputui.probe.objects.torch_types import AnyObject, Torch

# What a value is. An atom holds nothing of interest; a saved tensor is autograd's own wrapper of one.
ATOM, TENSOR, MODULE, EXCEPTION, GENERATOR, OPTIMIZER, SEQUENCE, MAPPING, FUNCTION, SAVED, OPAQUE, OBJECT = range(12)
LOOKED_FOR = frozenset((TENSOR, MODULE, EXCEPTION, GENERATOR, OPTIMIZER))
"""What a search finds, down from variables and among all of Python's objects."""
LEADING = frozenset((SEQUENCE, MAPPING, FUNCTION, SAVED, OPAQUE, OBJECT))
"""The kinds that lead to those."""
SEQUENCES = (list, tuple, set, frozenset, deque)
ATOMS = (
    *(str, bytes, bytearray, int, float, complex, type(None), type(Ellipsis), range, slice, type),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.GetSetDescriptorType),
    types.TracebackType,
)

_second = itemgetter(1)


def base_of(sequence: AnyObject) -> AnyObject:
    """Python's own type of which a sequence is: its methods run no code of a subclass's."""
    cls = type(sequence)
    return cls if cls is list or cls is tuple else next(base for base in SEQUENCES if issubclass(cls, base))


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


class _PlainKinds(Dict[type, int]):
    """What the values of a type are, for types that can be hashed: C code can look up a million objects."""

    def __init__(self, of: Callable[[type], int]) -> None:
        super().__init__()
        self._of = of
        self._passing: list[type] = []

    def __missing__(self, cls: type) -> int:
        self[cls] = kind = self._of(cls)
        if not is_lasting(cls):
            self._passing.append(cls)
        return kind

    def forget_passing(self) -> None:
        """Let go of the classes that do not stay as long as the process."""
        while self._passing:
            self.pop(self._passing.pop(), None)


class _Kinds:
    """What the values of a type are; decided once for each type, and kept for later looks if the type lasts."""

    def __init__(self) -> None:
        self.plain = _PlainKinds(self.of)
        self._made_from: tuple[Any, bool] = (None, False)
        self._known: dict[int, tuple[type, int]] = {}
        """By the id of the type, which is kept so that no other type gets its id."""
        self._passing: list[int] = []
        """The ids of those among them that do not stay as long as the process."""
        self._kinds: list[int] = []
        self._ranks: dict[int, int] = {}
        """The place of each base in the table: the first of those that a class has says what its values are."""

    def begin(self, torch: Torch) -> None:
        """A look begins: forget everything if the table is another, as asyncio was imported, or another PyTorch."""
        made_from = torch, "_asyncio" in sys.modules
        if made_from == self._made_from:
            return
        table = _table(torch)  # first: it fails while PyTorch is being imported
        self.forget_passing()
        self.plain.clear()
        self._known = {id(object): (object, ATOM)}
        self._kinds = [kind for kind, _ in table]
        self._ranks = {id(base): rank for rank, (_, bases) in reversed(list(enumerate(table))) for base in bases}
        self._made_from = made_from

    def of(self, cls: type) -> int:
        known = self._known.get(id(cls))
        if known is not None:
            return known[1]
        ranks = [rank for base in plain.mro_of(cls) if (rank := self._ranks.get(id(base))) is not None]
        without_rank = OBJECT if plain.flags_of(cls) & plain.HEAP_TYPE else ATOM
        kind = self._kinds[min(ranks)] if ranks else without_rank
        self._known[id(cls)] = cls, kind
        if not is_lasting(cls):
            self._passing.append(id(cls))
        return kind

    def forget_passing(self) -> None:
        """Let go of the program's own classes, which it may drop."""
        self.plain.forget_passing()
        while self._passing:
            self._known.pop(self._passing.pop(), None)


def _table(torch: Torch) -> list[tuple[int, tuple[type, ...]]]:
    """Kinds with their types, of which the first counts that a class is derived from."""
    saved = getattr(torch._C._autograd, "SavedTensor", torch.Tensor)
    return [
        (TENSOR, (torch.Tensor,)),
        (MODULE, (torch.nn.Module,)),
        (OPTIMIZER, (torch.optim.Optimizer,)),
        (SAVED, (saved,)),
        (EXCEPTION, (BaseException,)),
        (MAPPING, (dict,)),
        (SEQUENCE, SEQUENCES),
        (FUNCTION, (types.FunctionType, types.MethodType, functools.partial)),
        (GENERATOR, opaque.GENERATORS),
        (OPAQUE, opaque.types()),
        (OBJECT, (types.SimpleNamespace,)),
        (ATOM, ATOMS),
    ]


_kinds = _Kinds()
forget_passing_classes = _kinds.forget_passing
"""Call this at the end of a look."""


class TypeClassifier:
    """Says what values are by their types. Belongs to one look."""

    def __init__(self, torch: Torch) -> None:
        plain.look_at_metaclasses()
        _kinds.begin(torch)

    def kind_of(self, value: AnyObject) -> int:
        """TENSOR, MODULE and so on; ATOM, which is false, if the value holds nothing of interest."""
        cls = type(value)
        return _kinds.plain[cls] if type(cls) is type else _kinds.of(cls)

    def kinds_of(self, values: Iterable[AnyObject]) -> list[int]:
        """The kind of each of these values."""
        return self.kinds_of_classes(list(map(type, values)))

    def kinds_of_classes(self, classes: list[type]) -> list[int]:
        """The kind of the values of each of these classes."""
        if plain.are_plain(classes):
            return list(map(_kinds.plain.__getitem__, classes))
        idents = list(map(id, classes))
        kinds = {ident: _kinds.of(cls) for ident, cls in dict(zip(idents, classes)).items()}
        return list(map(kinds.__getitem__, idents))

    def of_interest(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Those of these pairs whose second value is of interest."""
        kinds = self.kinds_of(map(_second, pairs))
        return list(compress(pairs, kinds)) if any(kinds) else []
