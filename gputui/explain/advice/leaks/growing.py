"""A variable that keeps more and more, and what it keeps."""

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
    """What a variable keeps: `own_bytes` in its tensors, `graph_bytes` in what their autograd graphs have saved.

    These are on the device; the `host` ones are in host memory, where `node_bytes` is the estimate for the operations
    of the graphs themselves. `shapes` are those of its tensors, `addresses` of all that it keeps, the largest first.
    `hidden_bytes` of `own_bytes` are shown by none of them. `is_exact` is false for an estimate from some elements.
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
    """Whether the elements are tensors themselves, not objects that have some."""
    is_of_exceptions: bool = False
    is_exact: bool = True

    @classmethod
    def together(cls, parts: Sequence[Kept]) -> Kept:
        """What several variables keep."""
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
        """The host memory that would be free without the graphs."""
        return self.host_graph_bytes + self.node_bytes


@dataclass(frozen=True, slots=True)
class GrowingVariable:
    """A variable that keeps more and more: a container with its first and last length, or one tensor.

    `container` is None for a single variable. `grown_bytes` came between `first` and `last`, on the device or, if that
    is less than `GROWTH_BYTES`, in the host's memory.
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
    """How many containers in the one of this name get longer, as in a dictionary of lists; 0 where it does itself.
    `container` then has the elements of all, and their type."""

    @property
    def element(self) -> str:
        """What to call one of the tensors that it gets."""
        if self.container is None:
            return self.name
        return singular(self.name) if self.kept.are_tensors else singular("")

    @property
    def is_scalar(self) -> bool:
        """Whether all its tensors are single numbers."""
        return not any(size > 1 for shape in self.kept.shapes for size in shape)

    @property
    def is_full(self) -> bool:
        """Whether it has as many elements as it may have: what comes now takes the place of another."""
        return self.container is not None and 0 < self.container.limit <= self.container.elements

    @property
    def is_linked(self) -> bool:
        """Whether it is a tree or chain of objects of one class."""
        return self.name.endswith(BELOW)

    @property
    def has_several_tensors(self) -> bool:
        """Whether several tensors have its name, as those that an iterator keeps, and no graph does."""
        return self.container is None and not self.graphs and len(self.kept.addresses) > 1

    @property
    def is_on_device(self) -> bool:
        """Whether it is the device's memory that grows."""
        return self.kept.device_bytes >= GROWTH_BYTES

    @property
    def bytes_per_s(self) -> float:
        return self.grown_bytes / max(self.last.time - self.first.time, 1e-9)


def kept_by(look: Seen, names: Collection[str], device: int, container: Container, graphs: int) -> Kept:
    """What the elements of the container with these names keep."""
    prefixes = tuple(f"{name}[" for name in names)
    own, saved = split(inventory_of(look).storages, prefixes)
    graph_keys = {_key(_path(storage.kept_by, storage.keeper), prefixes) for storage in saved}
    keys = graph_keys | {_key(_path(storage.owner, storage.keeper), prefixes) for storage in own}
    is_of_exceptions = any(storage.keeper is not Keeper.NONE for storage in own + saved)
    is_whole = inventory_of(look).is_complete and not is_of_exceptions  # of exceptions, even complete looks read a part
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
    """An estimate from what was found; the rest of it can only be among the `left_bytes` that have no owner."""
    return found_bytes + min(int((scale - 1) * found_bytes), left_bytes)


def split(storages: Iterable[Storage], prefixes: tuple[str, ...]) -> tuple[list[Storage], list[Storage]]:
    """The storages of tensors below these names, and those that are kept by the graphs of such tensors."""
    own, saved = [], []
    for storage in storages:
        if _path(storage.kept_by, storage.keeper).startswith(prefixes):
            saved.append(storage)
        elif _path(storage.owner, storage.keeper).startswith(prefixes):
            own.append(storage)
    return own, saved


def _path(name: OwnerName, keeper: Keeper) -> str:
    """The name by which a variable leads to a tensor; it is that of the exception for a local that one keeps."""
    return name.path if keeper is Keeper.NONE else name.holder


def _key(path: str, prefixes: tuple[str, ...]) -> str:
    return _split_element(path, prefixes)[0]


def _below_element(path: str, prefixes: tuple[str, ...]) -> str:
    """The way from an element to a tensor: "" if the element is one."""
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
"""How the keys of elements begin that name one element; a key that is only the name of its type names all."""


_NO_INVENTORY = Inventory((), "", is_of_one_moment=False, is_complete=False)


def inventory_of(look: Seen) -> Inventory:
    return look.inventory or _NO_INVENTORY
