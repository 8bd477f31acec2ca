"""The ledger of storages: each is counted once, under the first owner that is recorded for it.

Everything is read through the descriptors of PyTorch's base class, so that neither a subclass's properties nor its
`__torch_function__` run. The address is read with `_data_address`: `data_ptr()` would make a copy-on-write tensor copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress
from operator import itemgetter, not_
from typing import Any

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.plain import type_name
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch, tensor_base
from gputui.probe.tensors.entries import HOST, new_entry
from gputui.probe.tensors.views import SmallViews, together
from gputui.probe.tensors.wrapped_tensors import UNREADABLE, WrapperReader
from gputui.protocol.categories import KV_CACHE, OWNED
from gputui.protocol.owners import Owner, Where, placed

DEPTH_OF_WRAPPERS = 3
SCAN_ASKS_PINNED_FROM_BYTES = 1 << 16
WALK_ASKS_PINNED_FROM_BYTES = 1 << 24
"""Whether a host storage is pinned is not asked for smaller ones, as each question is a call of the CUDA driver."""

TINY_BYTES = 64
"""A host storage of at most so many bytes counts as not pinned: `record_plain` need not ask."""
OF_MODELS = OWNED | {KV_CACHE}
"""The categories of storages that a module or an optimizer may own."""

_device, _address = itemgetter("device"), itemgetter("address")
_described = itemgetter(
    "device", "address", "size_bytes", "category", "owner", "keeper", "type", "shape", "dtype", "views"
)
"""The fields of an entry that `record_plain` sets: the others are about autograd graphs and pinned memory."""


class Ledger:
    """The entries of storages, by address. The caller holds `torch._C.DisableTorchFunction()` while it records."""

    def __init__(
        self,
        torch: Torch,
        attributes: AttributeReader,
        *,
        ask_pinned_from_bytes: int | None,
        earlier: Mapping[int, dict[str, Any]] | None = None,
    ) -> None:
        self._wrappers = WrapperReader(torch, attributes)
        self.entries: dict[int, dict[str, Any]] = {}
        self._owned: set[int] = set()
        """The addresses of storages that models own: nothing else may name them, even if this look has no time to."""
        self.keeper = ""
        self._kept_where: Where = ""
        self._earlier = earlier or {}
        """The entries of earlier looks, by address."""
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        base = tensor_base(torch)
        self._storage = base.untyped_storage
        self._nbytes = torch._C.StorageBase.nbytes
        self._device_of = torch._C.StorageBase.device.__get__
        self._address = getattr(torch._C, "_data_address", None) or partial(
            _address_before_copy_on_write, self._storage
        )
        self._get_device = base.get_device
        self._is_cpu = base.is_cpu.__get__
        self._is_cuda = base.is_cuda.__get__
        self._shape = base.shape.__get__
        self._dtype = base.dtype.__get__
        self._is_pinned = base.is_pinned
        self._ask_pinned_from_bytes = ask_pinned_from_bytes
        self._dtype_names: dict[Any, str] = {}
        self.views = SmallViews(torch, self._wrappers.dispatches)

    @contextmanager
    def kept_by(self, keeper: str, where: Where = "") -> Iterator[None]:
        """Mark what is recorded meanwhile as kept alive by `keeper` alone; `where` becomes part of the owners."""
        before = self.keeper, self._kept_where
        self.keeper, self._kept_where = keeper, where
        try:
            yield
        finally:
            self.keeper, self._kept_where = before

    def note_owned(self, tensors: list[Tensor]) -> list[Tensor]:
        """Reserve the storages of these tensors for the model that owns them, even if there is no time to record it.

        Returns the tensors whose storages no earlier look has found.
        """
        addresses = self.addresses(tensors)
        if addresses is None:
            return []
        self._owned.update(addresses)
        return list(compress(tensors, map(not_, map(self._earlier.__contains__, addresses))))

    def as_kept_now(self, record: Callable[[], None]) -> Callable[[], None]:
        """`record`, bound to the present keeper: it records with that keeper whenever it is called."""
        return partial(self._kept, record, self.keeper, self._kept_where)

    def _kept(self, record: Callable[[], None], keeper: str, where: Where) -> None:
        with self.kept_by(keeper, where):
            record()

    def record(self, tensor: Tensor, category: str, owner: Owner, depth: int = 0) -> dict[str, Any] | None:
        """Give the tensor's storage an owner, unless it has one; returns the storage's entry.

        None if the tensor has no memory of its own, or if a model owns it and there was no time to record that. Where a
        tensor only wraps others (DTensor, sparse, subclasses with inner tensors), those get the owner.
        """
        try:
            address = self._address(tensor)
        except UNREADABLE:
            address = 0
        if address:
            entry = self.entries.get(address)
            if entry is None and address in self._owned and category not in OF_MODELS:
                return None
            if entry is None:
                return self._add(tensor, address, category, owner)
            if entry["views"]:
                self.views.add_one(entry, tensor)
            return entry
        if depth < DEPTH_OF_WRAPPERS:
            for part in self._wrappers.parts(tensor):
                self.record(part, category, owner, depth + 1)
        return None

    def are_plain(self, tensors: list[Tensor]) -> list[bool]:
        """Whether each of these is of one of PyTorch's own classes."""
        return list(map({id(self._tensor), id(self._parameter)}.__contains__, map(id, map(type, tensors))))

    def record_plain(self, tensors: list[Tensor], category: str, owners: Sequence[Owner]) -> list[int]:
        """Record many tensors of PyTorch's own classes in loops of C; returns the indices of those that are left.

        The caller has to record those one by one: their storages have owners, or they are in host memory and may be
        pinned, as they are not tiny like the steps that Adam counts for each parameter.
        """
        left: list[int] = []
        if not tensors:
            return left
        try:
            rows = self._rows(tensors)
        except UNREADABLE:  # one has no memory of its own, or no sizes
            return list(range(len(tensors)))
        for number, (is_cuda, is_cpu, address, device, size_bytes, shape, dtype, cls, views) in enumerate(rows):
            is_owned = address in self._owned and category not in OF_MODELS
            is_simple = is_cuda or (is_cpu and size_bytes <= TINY_BYTES)
            if not is_simple or not address or not size_bytes or address in self.entries or is_owned:
                left.append(number)
                continue
            owner, dtype_name = self._placed(owners[number]), self._dtype_name(dtype)
            values = (device, address, size_bytes, category, owner, self.keeper, cls.__name__, shape, dtype_name, views)
            earlier = self._earlier.get(address)
            if earlier is None or _described(earlier) != values:
                earlier = new_entry(*values, is_pinned=False)
            self.entries[address] = earlier
            if views:
                self.views.watch([earlier])
        return left

    def _rows(self, tensors: list[Tensor]) -> list[tuple[Any, ...]]:
        kinds_of_memory = map(self._is_cuda, tensors), map(self._is_cpu, tensors)
        placed = *kinds_of_memory, map(self._address, tensors), map(self._get_device, tensors)
        sizes = list(map(self._nbytes, map(self._storage, tensors)))
        kinds = map(list, map(self._shape, tensors)), map(self._dtype, tensors), map(type, tensors)
        return list(zip(*placed, sizes, *kinds, self.views.of(tensors, sizes)))

    def record_again(self, tensors: list[Tensor], category: str, owners: Sequence[Owner]) -> list[int]:
        """Record those tensors whose entry of an earlier look has the same address, size and owner: that entry is kept.

        Returns the indices of the others. `category` is "" for any. Only for tensors that keep their places, in a model
        or a container: another variable of the same name may hold another tensor of the same size.
        """
        addresses = self.addresses(tensors)
        if addresses is None:
            return list(range(len(tensors)))
        own = zip(tensors, self.are_plain(tensors))  # other classes: taken to have kept their size
        sizes = [self._nbytes(self._storage(tensor)) if is_plain else None for tensor, is_plain in own]
        found, left = [], []
        for number, (address, owner, size_bytes) in enumerate(zip(addresses, owners, sizes)):
            entry = self._earlier.get(address)
            if (
                address in self.entries
                or entry is None
                or size_bytes not in {None, entry["size_bytes"]}
                or entry["owner"] != (self._placed(owner) if self._kept_where else owner)
                or category not in ("", entry["category"])
                or entry["keeper"] != self.keeper
            ):
                left.append(number)
            else:
                self.entries[address] = entry
                found.append(entry)
        self.views.watch(found)
        return left

    def entry_of(self, tensor: Tensor) -> dict[str, Any] | None:
        """The entry of the tensor's storage; None if there is none yet, or if the tensor has no memory of its own."""
        try:
            return self.entries.get(self._address(tensor))
        except UNREADABLE:
            return None

    def addresses(self, tensors: list[Tensor]) -> list[int] | None:
        """The address of each tensor's storage, or of the storage of the only tensor that it wraps.

        None if one of the tensors has no memory of its own and wraps none or several.
        """
        try:
            addresses = list(map(self._address, tensors))
            if not all(addresses):
                wrappers = list(compress(tensors, map(not_, addresses)))
                inner = map(self._address, self._wrappers.wrapped(wrappers))
                addresses = [address or next(inner) for address in addresses]
        except UNREADABLE:  # a ValueError where there are several parts
            return None
        return addresses if all(addresses) else None

    def without_owner(self, tensors: list[Tensor]) -> list[Tensor]:
        """The tensors whose storage has no owner yet."""
        try:
            addresses = map(self._address, tensors)
            return list(compress(tensors, map(not_, map(self.entries.__contains__, addresses))))
        except UNREADABLE:
            return tensors

    def category_before(self, tensor: Tensor) -> str:
        """The category that earlier looks gave to a storage of this address and size; "" if they found none there."""
        addresses = self.addresses([tensor])
        earlier = self._earlier.get(addresses[0]) if addresses else None
        if earlier is None:
            return ""
        is_same = not self.are_plain([tensor])[0] or earlier["size_bytes"] == self._nbytes(self._storage(tensor))
        return str(earlier["category"]) if is_same else ""

    def devices(self) -> set[int]:
        """The devices that the storages are on."""
        return set(map(_device, self.entries.values())) - {HOST}

    def _add(self, tensor: Tensor, address: int, category: str, owner: Owner) -> dict[str, Any] | None:
        storage = self._storage(tensor)
        device = self._device_index(tensor, storage)
        size_bytes = self._nbytes(storage) if device is not None else 0
        if device is None or not size_bytes:
            return None
        entry = new_entry(
            *(device, address, size_bytes, category, self._placed(owner), self.keeper, type_name(tensor)),
            *(self.sizes(tensor), self._dtype_name(self._dtype(tensor)), self.views.of_one(tensor, size_bytes)),
            is_pinned=device == HOST and self._ask_pinned(tensor, size_bytes),
        )
        self.entries[address] = entry
        if entry["views"]:
            self.views.watch([entry])
        return entry

    def _placed(self, owner: Owner) -> Owner:
        return placed(owner, self._kept_where) if self._kept_where else owner

    def _device_index(self, tensor: Tensor, storage: AnyObject) -> int | None:
        """PyTorch's index of the tensor's CUDA device, HOST, or None for a device of another kind."""
        if self._wrappers.dispatches(type(tensor)):
            device = self._device_of(storage)
            return {"cuda": device.index, "cpu": HOST}.get(device.type)
        index: int = self._get_device(tensor)
        if index < 0:
            return HOST if self._is_cpu(tensor) else None
        return index if self._is_cuda(tensor) else None

    def sizes(self, tensor: Tensor) -> list[int]:
        """The tensor's shape; [] if it has none (a nested tensor), or if code of the program may compute it."""
        try:
            return [] if self._wrappers.dispatches(type(tensor)) else list(self._shape(tensor))
        except UNREADABLE:
            return []

    def _ask_pinned(self, tensor: Tensor, size_bytes: int) -> bool:
        least_bytes = self._ask_pinned_from_bytes
        if least_bytes is None or size_bytes < least_bytes or self._wrappers.dispatches(type(tensor)):
            return False
        return bool(self._is_pinned(tensor))

    def drop(self, entry: dict[str, Any]) -> None:
        """Remove a storage's entry, so that another owner can be recorded."""
        del self.entries[entry["address"]]

    def rename(self, entry: dict[str, Any], tensor: Tensor, owner: Owner, category: str = "") -> None:
        """Give a storage the name, shape and type of another tensor that shares it.

        With a `category`, the storage gets that one, and does not count as saved by a graph any more.
        """
        before = self.entries.pop(entry["address"])
        renamed = self._add(tensor, before["address"], category or before["category"], owner)
        if renamed is None:
            self.entries[before["address"]] = before
        else:
            renamed["saved_by"] = "" if category else before["saved_by"]
            renamed["views"] = together(before, renamed)

    def _dtype_name(self, dtype: AnyObject) -> str:
        name = self._dtype_names.get(dtype)
        if name is None:
            name = self._dtype_names[dtype] = str(dtype).split(".")[-1]
        return name


def _address_before_copy_on_write(storage: Callable[[Tensor], AnyObject], tensor: Tensor) -> int:
    return int(storage(tensor).data_ptr())
