"""A variable that keeps more and more, and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.advice.leaks.thresholds import GROWTH_BYTES
from gputui.explain.advice.situation import Seen
from gputui.explain.owners.names import singular
from gputui.model.attached.tensors import Container
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
    def is_linked(self) -> bool:
        """Whether it is a tree or chain of objects of one class."""
        return self.name.endswith(BELOW)

    @property
    def is_on_device(self) -> bool:
        """Whether it is the device's memory that grows."""
        return self.kept.device_bytes >= GROWTH_BYTES

    @property
    def bytes_per_s(self) -> float:
        return self.grown_bytes / max(self.last.time - self.first.time, 1e-9)
