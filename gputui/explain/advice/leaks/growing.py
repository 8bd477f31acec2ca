"""Describes a variable that keeps more and more memory, and what it keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gputui.explain.advice.leaks.thresholds import GROWTH_BYTES, NODE_BYTES
from gputui.explain.advice.situation import Seen, category_bytes
from gputui.explain.owners.names import singular
from gputui.model.attached.owners import Keeper, OwnerName
from gputui.model.attached.tensors import HOST, NAMELESS, Container, Inventory, Storage
from gputui.protocol.owners import BELOW

_AMOUNTS = ("own_bytes", "graph_bytes", "host_own_bytes", "host_graph_bytes", "node_bytes", "hidden_bytes")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a variable keeps: `own_bytes` in its tensors, `graph_bytes` in tensors saved by their autograd graphs.

    Both are on the device; `host_own_bytes` and `host_graph_bytes` are in host memory, where `node_bytes` is estimated
    for the operations of the graphs. `shapes` are those of its tensors, `addresses` of all that it keeps on the device,
    the largest first. No tensor shows `hidden_bytes` of `own_bytes`. `is_exact` is False for an estimate.
    """

    own_bytes: int = 0
    graph_bytes: int = 0
    host_own_bytes: int = 0
    host_graph_bytes: int = 0
    node_bytes: int = 0
    shapes: frozenset[tuple[int, ...]] = frozenset()
    hidden_bytes: int = 0
    addresses: tuple[int, ...] = ()
    are_tensors: bool = True
    """Whether the elements are tensors themselves, not objects that have tensors."""
    is_of_exceptions: bool = False
    is_exact: bool = True

    @classmethod
    def together(cls, parts: Sequence[Kept]) -> Kept:
        """What several variables keep together."""
        return cls(
            **{amount: sum(getattr(part, amount) for part in parts) for amount in _AMOUNTS},
            shapes=frozenset().union(*(part.shapes for part in parts)),
            addresses=tuple(address for part in parts for address in part.addresses),
            are_tensors=all(part.are_tensors for part in parts),
            is_of_exceptions=all(part.is_of_exceptions for part in parts),
            is_exact=all(part.is_exact for part in parts),
        )

    @property
    def device_bytes(self) -> int:
        return self.own_bytes + self.graph_bytes

    @property
    def freed_on_host_bytes(self) -> int:
        """The host memory that would be freed without the graphs."""
        return self.host_graph_bytes + self.node_bytes


@dataclass(frozen=True, slots=True)
class GrowingVariable:
    """A variable that keeps more and more: a container with its first and last length, or a single variable.

    `container`, that of the `last` look, is None for a single variable. `grown_bytes` came between the looks `first`
    and `last`, on the device or, if the variable keeps hardly anything there, in host memory.
    """

    name: str
    place: str
    first: Seen
    last: Seen
    kept: Kept
    grown_bytes: int
    container: Container | None = None
    first_elements: int = 0
    graphs: int = 0
    lists: int = 0
    """How many containers inside the one of this name get longer, as in a dictionary of lists; 0 if it does itself.
    `container` then has the type of the inner containers, and the elements of all of them."""

    @property
    def element(self) -> str:
        """What the program may call one of the tensors that are added: `loss` for `losses`."""
        if self.container is None:
            return self.name
        return singular(self.name) if self.kept.are_tensors else singular("")

    @property
    def is_scalar(self) -> bool:
        """Whether each of its tensors is a single number."""
        return not any(size > 1 for shape in self.kept.shapes for size in shape)

    @property
    def is_full(self) -> bool:
        """Whether it has as many elements as it may have, so that a new element replaces an old one."""
        return self.container is not None and 0 < self.container.limit <= self.container.elements

    @property
    def is_linked(self) -> bool:
        """Whether it is a tree or a chain of objects of one class: see `BELOW`."""
        return self.name.endswith(BELOW)

    @property
    def has_several_tensors(self) -> bool:
        """Whether several tensors have this name, as those that an iterator keeps, and none of them keeps a graph."""
        return self.container is None and not self.graphs and len(self.kept.addresses) > 1

    @property
    def is_on_device(self) -> bool:
        """Whether it keeps at least `GROWTH_BYTES` on the device; otherwise its host memory is what counts."""
        return self.kept.device_bytes >= GROWTH_BYTES

    @property
    def bytes_per_s(self) -> float:
        return self.grown_bytes / max(self.last.time - self.first.time, 1e-9)


def kept_by(look: Seen, names: Collection[str], device: int, container: Container, graphs: int) -> Kept:
    """What the elements of a container, which looks have seen by these names, keep; estimated if not all were read."""
    prefixes = tuple(f"{name}[" for name in names)
    own, saved = split(inventory_of(look).storages, prefixes)
    graph_keys = {_key(_path(storage.kept_by, storage.keeper), prefixes) for storage in saved}
    keys = graph_keys | {_key(_path(storage.owner, storage.keeper), prefixes) for storage in own}
    is_of_exceptions = any(storage.keeper is not Keeper.NONE for storage in own + saved)
    is_whole = inventory_of(look).is_complete and not is_of_exceptions  # even complete looks read only some exceptions
    is_exact = is_whole or (len(keys) >= container.elements and len(graph_keys) >= graphs)
    can_scale = not is_exact and all(key[:1] in _LITERALS for key in keys)
    scale = max(1.0, container.elements / len(keys)) if keys and can_scale else 1.0
    graph_scale = max(1.0, graphs / len(graph_keys)) if graph_keys and can_scale else 1.0
    nodes = container.nodes / container.walked * graphs if container.walked else 0
    left_bytes = sum(category_bytes(look.layout, category) for category in NAMELESS)
    own_bytes = _scaled(bytes_on(device, own), scale, left_bytes)
    left_bytes -= own_bytes - bytes_on(device, own)
    return Kept(
        own_bytes=own_bytes,
        graph_bytes=_scaled(bytes_on(device, saved), graph_scale, left_bytes),
        host_own_bytes=int(scale * bytes_on(HOST, own)),
        host_graph_bytes=int(graph_scale * bytes_on(HOST, saved)),
        node_bytes=int(nodes * NODE_BYTES),
        shapes=frozenset(storage.shape for storage in own),
        hidden_bytes=int(scale * sum(s.hidden_bytes for s in own if s.device == device)),
        addresses=addresses_on(device, own + saved),
        are_tensors=all(_below_element(_path(storage.owner, storage.keeper), prefixes) == "" for storage in own),
        is_of_exceptions=is_of_exceptions,
        is_exact=is_exact,
    )


def _scaled(found_bytes: int, scale: float, left_bytes: int) -> int:
    """`scale` times what was found, at most `left_bytes` more: the rest can only be in blocks without an owner."""
    return found_bytes + min(int((scale - 1) * found_bytes), left_bytes)


def split(storages: Iterable[Storage], prefixes: tuple[str, ...]) -> tuple[list[Storage], list[Storage]]:
    """The storages whose names begin with these prefixes, and those that the graphs of such tensors keep."""
    own, saved = [], []
    for storage in storages:
        if _path(storage.kept_by, storage.keeper).startswith(prefixes):
            saved.append(storage)
        elif _path(storage.owner, storage.keeper).startswith(prefixes):
            own.append(storage)
    return own, saved


def _path(name: OwnerName, keeper: Keeper) -> str:
    """The path from a variable to a tensor; for a local that an exception keeps, the path to the exception."""
    return name.path if keeper is Keeper.NONE else name.holder


def _key(path: str, prefixes: tuple[str, ...]) -> str:
    return _split_element(path, prefixes)[0]


def _below_element(path: str, prefixes: tuple[str, ...]) -> str:
    """The steps from an element to a tensor: "" if the element is the tensor itself."""
    return _split_element(path, prefixes)[2]


def _split_element(path: str, prefixes: tuple[str, ...]) -> tuple[str, str, str]:
    start = next(len(prefix) for prefix in prefixes if path.startswith(prefix))
    return path[start:].partition("]")


def bytes_on(device: int, storages: Iterable[Storage]) -> int:
    return sum(storage.size_bytes for storage in storages if storage.device == device)


def addresses_on(device: int, storages: Iterable[Storage]) -> tuple[int, ...]:
    on_device = (storage for storage in storages if storage.device == device)
    return tuple(storage.address for storage in sorted(on_device, key=lambda storage: -storage.size_bytes))


_LITERALS = frozenset("'\"(-0123456789")
"""How a key in a path begins that stands for one element; other keys are names of types, and stand for many."""


_NO_INVENTORY = Inventory((), "", is_of_one_moment=False, is_complete=False)


def inventory_of(look: Seen) -> Inventory:
    return look.inventory or _NO_INVENTORY
