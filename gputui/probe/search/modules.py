"""The program's modules with the names that `named_parameters()` would give them, known from look to look.

Modules are held by weak references. To notice changes, each look reads a few of them again, and several looks read all.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from gputui.probe.objects.attributes import module_dict, module_dict_getter
from gputui.probe.objects.plain import has_plain_names, name_of, type_name
from gputui.probe.objects.torch_types import Module
from gputui.probe.pace.meter import Meter
from gputui.probe.search.variables import NamedValue
from gputui.protocol.owners import Where

FORWARDING_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""The child that a wrapper (torch.compile, FSDP, checkpointing) forwards to: left out of names, as a person would."""
READ_AGAIN = 128
"""How many known modules a look reads again for new or replaced children."""
NAMED_AGAIN_AT = 1.5
"""While modules are left to read, those read get names only once there are this many times as many as have names."""

# How a module was found, the best name first.
BY_VARIABLE, AS_SELF, AMONG_OBJECTS, AS_CHILD = range(4)


class KnownModule:
    """A module with its full name ("model.layers.0"), and the key and id of each of its `children`."""

    __slots__ = (
        *(
            "children",
            "found",
            "has_buffers",
            "has_parameters",
            "is_alone",
            "is_mere_wrapper",
            "is_read",
            "name",
            "names",
            "reference",
        ),
        *("rests_until", "variable"),
    )

    def __init__(self, module: Module) -> None:
        self.reference = weakref.ref(module)
        self.children: list[tuple[str, int]] = []
        self.is_read = False
        self.is_mere_wrapper = False
        """Whether it has one child and no parameters of its own."""
        self.has_parameters = self.has_buffers = False
        """Whether the module itself has any, not only modules below it."""
        self.found = AS_CHILD
        self.variable = type_name(module)
        """The name that it has as the root of a tree: of its variable, or else of its class."""
        self.name = ""
        self.names: dict[str, str] = {}
        """The full names of its tensors by their keys, so that not every look makes them again."""
        self.is_alone = False
        """Whether no variable leads to it or to a module above it, as far as looks have found."""
        self.rests_until = 0
        """The number of the search (`SearchMemory.number`) that reads its attributes again, which led to nothing."""

    def name_of(self, key: str) -> str:
        """The full name of its parameter or buffer."""
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"{self.name}.{key}"
        return name


class ModuleTrees:
    """The modules that looks have found, and all modules below them. Reading them can take several looks."""

    def __init__(self) -> None:
        self.named: list[KnownModule] = []
        """All that have names, parents before children."""
        self.wrappers: list[KnownModule] = []
        """Those with one child and no parameters of their own."""
        self.version = 0
        """Changes whenever names were given."""
        self._known: dict[int, KnownModule] = {}
        self._by_variable: dict[tuple[str, Where], KnownModule] = {}
        """The modules of the last look by the names and places of their variables."""
        self._unread: list[weakref.ref[Any]] = []
        self._next_again = 0
        self._growing: dict[int, KnownModule] = {}
        """Those that got more children after they were named, by id, such as adapters: each look reads them first."""
        self._inner: set[int] = set()
        """The ids of the modules that were below others when names were given: a variable does not name these."""
        self._is_changed = False
        """Whether names may have changed since they were given."""

    def update(self, in_variables: list[NamedValue], among_objects: Iterable[Module], meter: Meter) -> None:
        """Add the modules of this look and everything below them, as far as the meter allows."""
        self._is_changed |= self._read_again(meter)  # first: a new child is named after its parent
        changed = [self._find(named.value, _kind_of(named), named.name) for named in in_variables]
        changed += [self._find(module, AMONG_OBJECTS, type_name(module)) for module in among_objects]
        self._is_changed |= any(changed) | self._lose_replaced(in_variables) | self._read_unread(meter)
        if self._is_changed and (not self._unread or len(self._known) >= NAMED_AGAIN_AT * len(self.named)):
            self._is_changed = False
            self._name()

    def classes_alone(self) -> set[str]:
        """The classes of the outermost modules to which no variable leads."""
        return {known.name.partition(".")[0] for known in self.named if known.is_alone}

    def below(self, module: Module) -> list[KnownModule]:
        """This module and all below it, as far as they are known."""
        pending = [id(module)]
        tree: dict[int, KnownModule] = {}
        while pending:
            ident = pending.pop()
            known = self._known.get(ident)
            if known is not None and ident not in tree:
                tree[ident] = known
                pending += [child for _, child in known.children]
        return list(tree.values())

    def _find(self, module: Module, found: int, name: str) -> bool:
        """Note how a module was found; returns whether that changes names."""
        known = self._known.get(id(module))
        if known is None or known.reference() is not module:
            known = self._add(module)
        if found >= known.found:
            return False
        known.found = found
        if found == BY_VARIABLE:
            known.variable = name
        return id(module) not in self._inner

    def _lose_replaced(self, in_variables: list[NamedValue]) -> bool:
        """Forget the names of modules whose variables hold other modules by now; returns whether that changes names."""
        found = set(map(id, map(attrgetter("value"), in_variables)))
        is_changed = False
        for named in in_variables:
            known = self._by_variable.get((named.name, named.where))
            module = known.reference() if known is not None else None
            if known is None or module is None or id(module) in found or known.variable != named.name:
                continue
            known.found, known.variable = AMONG_OBJECTS, type_name(module)
            is_changed |= id(module) not in self._inner
        self._by_variable = {
            (named.name, named.where): self._known[id(named.value)]
            for named in in_variables
            if _kind_of(named) == BY_VARIABLE
        }
        return is_changed

    def _add(self, module: Module) -> KnownModule:
        known = self._known[id(module)] = KnownModule(module)
        self._read_owned(known, module)
        self._unread.append(known.reference)
        return known

    def _read_unread(self, meter: Meter) -> bool:
        """Read the children of modules that were not read yet; returns whether names may change."""
        is_changed = False
        while self._unread and meter.spend():
            module = self._unread.pop()()
            if module is not None:
                is_changed |= self._read_children(module)
        return is_changed

    def _read_again(self, meter: Meter) -> bool:
        """Read the children of a few modules again; returns whether names may change, as one is gone or has others."""
        if self._next_again >= len(self.named):
            self._next_again = 0
        some = self.named[self._next_again : self._next_again + READ_AGAIN]
        self._next_again += READ_AGAIN
        is_changed = False
        for known in [*self._growing.values(), *some]:
            module = known.reference()
            if module is None:
                is_changed = True
            elif meter.spend():
                is_changed |= self._read_children(module)
        return is_changed

    def _read_children(self, module: Module) -> bool:
        """Read the children of a known module and add the new ones; returns whether names may change by that.

        Children that were appended to earlier ones are named here: they change no other name.
        """
        known = self._known[id(module)]
        entries = [(key, child) for key, child in registered(module, "_modules") if child is not None]
        children = [(key, id(child)) for key, child in entries]
        self._read_owned(known, module)
        known.is_mere_wrapper = len(children) == 1 and not known.has_parameters
        if children == known.children:
            known.is_read = True
            return False
        before = len(known.children)
        is_longer = known.is_read and known.name != "" and before > 1 and children[:before] == known.children
        known.children, known.is_read = children, True
        are_new = [self._add_child(child) for _, child in entries[before if is_longer else 0 :]]
        if is_longer:
            self._growing[id(module)] = known
        if not is_longer or not all(are_new):
            return True
        for key, ident in children[before:]:
            new = self._known[ident]
            new.name, new.is_alone = f"{known.name}.{key}", known.is_alone
            self.named.append(new)
            self._inner.add(ident)
        return False

    @staticmethod
    def _read_owned(known: KnownModule, module: Module) -> None:
        known.has_parameters = bool(registered(module, "_parameters"))
        known.has_buffers = bool(registered(module, "_buffers"))

    def _add_child(self, module: Module) -> bool:
        """Add a module unless it is known; returns whether it was added."""
        known = self._known.get(id(module))
        if known is not None and known.reference() is module:
            return False
        self._add(module)
        return True

    def _name(self) -> None:
        """Name all modules: from those that variables hold down, then from those found otherwise.

        A module known only as `self`, in its own method, is named after its class. If both a wrapper (DDP, compile) and
        the module it wraps are in variables, the wrapped module's own variable names it.
        """
        self._known = {ident: known for ident, known in self._known.items() if known.reference() is not None}
        self._growing = {ident: known for ident, known in self._growing.items() if self._known.get(ident) is known}
        inner, wrapped = self._below_others()
        self._inner = inner
        roots = [ident for ident, known in self._known.items() if known.found == BY_VARIABLE and ident not in inner]
        roots.sort(key=lambda ident: ident not in wrapped)
        below = inner | wrapped
        for found in (AS_SELF, AMONG_OBJECTS, AS_CHILD):
            roots += [ident for ident, known in self._known.items() if known.found == found and ident not in below]
        named: dict[int, KnownModule] = {}
        for ident in (*roots, *self._known):  # all, as the module above some may be gone
            self._name_tree(ident, self._known[ident], named)
        self.named = list(named.values())
        self.wrappers = [known for known in self.named if known.is_mere_wrapper]
        self.version += 1

    def kept(self, roots: list[NamedValue]) -> dict[int, tuple[NamedValue, KnownModule]]:
        """Modules to which only keepers lead, each with the root above it, by the id of its `KnownModule`."""
        if not any(named.keeper for named in roots):
            return {}
        live = {id(known) for named in roots if not named.keeper for known in self.below(named.value)}
        kept: dict[int, tuple[NamedValue, KnownModule]] = {}
        for root in filter(attrgetter("keeper"), roots):
            for known in self.below(root.value):
                if id(known) not in live:
                    kept.setdefault(id(known), (root, known))
        return kept

    def _below_others(self) -> tuple[set[int], set[int]]:
        """The ids of the modules below others; apart from these, of the only children of mere wrappers."""
        inner: set[int] = set()
        wrapped: set[int] = set()
        for known in self._known.values():
            (wrapped if known.is_mere_wrapper else inner).update(ident for _, ident in known.children)
        return inner, wrapped

    def _name_tree(self, root: int, known_root: KnownModule, named: dict[int, KnownModule]) -> None:
        is_alone = known_root.found >= AMONG_OBJECTS
        stack = [(root, known_root.variable)]
        while stack:
            ident, name = stack.pop()
            known = self._known.get(ident)
            if known is None or ident in named:
                continue
            named[ident], known.is_alone = known, is_alone
            if known.name != name:
                known.name, known.names = name, {}
            stack += [
                (child, name if key in FORWARDING_WRAPPERS else f"{name}.{key}")
                for key, child in reversed(known.children)
            ]


def _kind_of(named: NamedValue) -> int:
    return AS_SELF if named.name == "self" else BY_VARIABLE


def registered(module: Module, attribute: str) -> list[tuple[str, Any]]:
    """The entries of a module's `_parameters`, `_buffers` or `_modules`; none before its `__init__` has run."""
    entries: Any = dict.get(module_dict(module), attribute)
    if not issubclass(type(entries), dict) or not dict.__len__(entries):
        return []
    if has_plain_names(entries):
        return list(dict.items(entries))
    return [(name_of(key) or type_name(key), value) for key, value in list(dict.items(entries))]


def all_registered(modules: list[Module], attribute: str) -> list[Any]:
    """The values in the `_parameters`, `_buffers` or `_modules` of all these modules, without None."""
    try:
        entries: Iterator[Any] = map(dict.get, map(module_dict_getter(), modules), repeat(attribute))
        values = list(chain.from_iterable(map(dict.values, entries)))
    except TypeError:  # a module whose `__init__` has not run
        values = [value for module in modules for _, value in registered(module, attribute)]
    return [value for value in values if value is not None]
