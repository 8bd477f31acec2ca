"""The search of a brief inventory: for tensors in the variables of running functions, or a few levels below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from gputui.probe.kinds import TENSOR
from gputui.probe.long_lists import SHORT, element_of
from gputui.probe.meter import Meter
from gputui.probe.search import CONTAINERS, REMEMBERED, VariableSearch
from gputui.probe.stacks import Namespace
from gputui.probe.variables import NamedValue, named_inside, size_of

LEVELS_NEARBY = 2
"""How far below a variable tensors are that change from moment to moment, as in `outputs['states'][0]`."""
NEAR = {TENSOR, *CONTAINERS}
LONG = 1024
"""Up to so many elements a longer list or tuple has of which every look takes the tensors without an owner."""
PAIRS_OF: dict[int, Callable[[Any], Iterable[Any]]] = {
    id(list): enumerate,
    id(tuple): enumerate,
    id(dict): dict.items,
}
"""What reads the keys and elements of Python's own containers, by the id of their type."""
_second = itemgetter(1)


class Root(NamedTuple):
    """A variable of a function, "" for that of a module: the function may be one of several with this name."""

    variable: str
    function: str


class BriefSearch(VariableSearch):
    """A search for tensors alone, as modules and optimizers are known already."""

    leading = VariableSearch.leading - REMEMBERED

    def search_nearby(self, namespaces: list[Namespace], roots: frozenset[Root], meter: Meter) -> None:
        """Take the tensors of these variables, those in their short lists, tuples and dictionaries, and below `roots`.

        `search` may follow.
        """
        level = self._near(namespaces)
        for depth in range(LEVELS_NEARBY + 1):
            containers: dict[int, tuple[NamedValue, int]] = {}
            for named, kind in level:
                ident = id(named.value)
                if kind == TENSOR and ident not in self._seen:
                    self._seen[ident] = named.value
                    self.tensors.append(named)
                elif kind in CONTAINERS and depth < LEVELS_NEARBY:
                    containers.setdefault(ident, (named, kind))
            level = self._in_short(list(containers.values()), meter)
        self.explore([named for space in namespaces for named in _below_roots(space, roots)], meter)

    def _near(self, namespaces: list[Namespace]) -> list[tuple[NamedValue, int]]:
        """The tensors, lists, tuples and dictionaries among these variables, with their kinds; read by columns."""
        variables = [space.variables for space in namespaces]
        values = list(chain.from_iterable(map(dict.values, variables)))
        kinds = self._classifier.kinds_of(values)
        wheres = chain.from_iterable(repeat(space.where, len(space.variables)) for space in namespaces)
        rows = zip(zip(values, chain.from_iterable(variables), wheres), kinds)
        near = compress(rows, map(NEAR.__contains__, kinds))
        return [(NamedValue(*value), kind) for value, kind in near]

    def _in_short(self, containers: list[tuple[NamedValue, int]], meter: Meter) -> list[tuple[NamedValue, int]]:
        """The tensors and containers, with their kinds, in those of these that are short enough for every look."""
        own, contents, others = [], [], []
        for named, kind in containers:
            pairs_of = PAIRS_OF.get(id(type(named.value)))
            if pairs_of is None:
                others += self._in_short_other(named, kind, meter)
            elif len(named.value) > SHORT:
                self.long.add(named)
            elif len(named.value) and meter.spend():
                own.append(named)
                contents.append(list(pairs_of(named.value)))
        pairs = list(chain.from_iterable(contents))
        kinds = self._classifier.kinds_of(map(_second, pairs))
        holders = chain.from_iterable(map(repeat, own, map(len, contents)))
        rows = compress(zip(holders, pairs, kinds), map(NEAR.__contains__, kinds))
        near = [(element_of(holder, key, value), kind) for holder, (key, value), kind in rows]
        return [*near, *zip(others, self._classifier.kinds_of(named.value for named in others))]

    def _in_short_other(self, named: NamedValue, kind: int, meter: Meter) -> list[NamedValue]:
        """What a set, a queue or a container of a derived type holds, if it is short."""
        size = size_of(named.value, kind)
        if not size or size > SHORT or self._is_resting(named.value, size) or not meter.spend():
            return []
        contents = self._contents(named.value, kind)
        return [] if contents is None else named_inside(named, contents.items)


def _below_roots(space: Namespace, roots: frozenset[Root]) -> Iterator[NamedValue]:
    """Those of these variables that are roots; `self` in place of one that is an attribute of it."""
    function = space.where.rpartition(" in ")[2]
    names = [variable for variable, of_function in roots if of_function == function]
    for name in {name if name in space.variables else "self" for name in names} & space.variables.keys():
        yield NamedValue(space.variables[name], name, space.where)
