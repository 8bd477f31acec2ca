"""Makes the allocator's map and counters from a snapshot's segments, and storages for names that are in the file."""

from __future__ import annotations

from gputui.explain.memory.map_faults import fault_of_segment
from gputui.model.attached.allocator import (
    AllocatorMap,
    AllocatorSettings,
    AllocatorStatistics,
    Block,
    BlockState,
    Segment,
)
from gputui.model.attached.tensors import Storage
from gputui.model.earlier_owners import owner_of_text
from gputui.protocol.allocator_settings import WITH_OLDER_FIRST, large_page_bytes, parse_settings
from gputui.sources.files.torch_snapshot.fields import Entry, FormatError, entries, fail, integer, pool_id, text
from gputui.sources.files.torch_snapshot.frames import Frames, owner_in, site_of

STATES = {
    "active_allocated": BlockState.ACTIVE_ALLOCATED,
    "active_pending_free": BlockState.ACTIVE_PENDING_FREE,
    "active_awaiting_free": BlockState.ACTIVE_PENDING_FREE,  # as PyTorch's documentation calls it
    "inactive": BlockState.INACTIVE,
}
DIVISIONS_AT_MOST = 16


class MapReader:
    """Reads the segments; `storages` then has a storage for each block whose owner the file names."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.storages: list[Storage] = []

    def map_of(self, snapshot: Entry) -> AllocatorMap:
        """The map, without private pools, since snapshots do not say who uses them: none counts as freeable."""
        found = [self._segment_or_none(entry) for entry in entries(snapshot, "segments")]
        segments = tuple(segment for segment in found if segment is not None)
        if found and not segments:
            raise FormatError(self._frames.left_out.first)
        return AllocatorMap(segments, (), (), settings_of(snapshot, segments))

    def _segment_or_none(self, entry: Entry) -> Segment | None:
        """A segment; None for one with an impossible value, which is counted as left out."""
        known = len(self.storages)
        try:
            segment = self._segment(entry)
            fault = fault_of_segment(segment)
            if fault:
                raise FormatError(fault)
        except FormatError as error:
            del self.storages[known:]
            self._frames.left_out.add(error)
            return None
        return segment

    def _segment(self, entry: Entry) -> Segment:
        device, address = integer(entry, "device", 0), integer(entry, "address")
        at, blocks = address, []
        for block in entries(entry, "blocks"):
            blocks.append(self._block(block, device, at))
            at += blocks[-1].size_bytes
        return Segment(
            device=device,
            address=address,
            size_bytes=integer(entry, "total_size"),
            stream=integer(entry, "stream", 0),
            is_small=text(entry, "segment_type", "large") == "small",
            is_expandable=bool(entry.get("is_expandable")),
            pool_id=pool_id(entry, "segment_pool_id"),
            blocks=tuple(blocks),
        )

    def _block(self, entry: Entry, device: int, place: int) -> Block:
        """A block; `place` is the end of the block before it: older snapshots have no addresses of blocks."""
        state = STATES.get(text(entry, "state"))
        if state is None:
            fail("state", entry.get("state"))
        address, size_bytes = integer(entry, "address", place), integer(entry, "size")
        requested_bytes = integer(entry, "requested_size", size_bytes)
        stack = self._frames.stack(_frames_of(entry))
        owner = owner_in(stack)
        if owner is not None:
            stack = stack[1:]
            category, name = owner
            self.storages.append(Storage(device, address, requested_bytes, category, owner_of_text(name), "", (), ""))
        return Block(address, size_bytes, requested_bytes, state, site_of(stack))


def _frames_of(entry: Entry) -> list[Entry]:
    """The stack of a block; PyTorch 2.0 has it in the block's history, whose first entry is the newest."""
    history = entries(entry, "history")
    return entries(entry, "frames") or (entries(history[0], "frames") if history else [])


def settings_of(snapshot: Entry, segments: tuple[Segment, ...]) -> AllocatorSettings:
    """The allocator's settings; what an older PyTorch does not write follows from the segments, or is the default."""
    settings = snapshot.get("allocator_settings") or {}
    if type(settings) is not dict:
        fail("allocator_settings", settings)
    values = parse_settings(text(settings, "PYTORCH_CUDA_ALLOC_CONF"))
    limit = integer(settings, "max_split_size", -1)
    is_expandable = any(segment.is_expandable for segment in segments)
    return AllocatorSettings(
        backend="native",
        large_page_bytes=large_page_bytes(values),
        max_split_bytes=limit if limit > 0 else None,
        is_expandable=bool(settings.get("expandable_segments", is_expandable)),
        values=tuple(values.items()),
        roundup_divisions=_divisions(settings),
        prefers_older=WITH_OLDER_FIRST in settings,
    )


def _divisions(settings: Entry) -> tuple[int, ...]:
    divisions = settings.get("roundup_power2_divisions") or {}
    if type(divisions) is not dict or len(divisions) > DIVISIONS_AT_MOST:
        fail("roundup_power2_divisions", divisions)
    if not all(type(key) is str and key.isdecimal() and len(key) < 9 for key in divisions):
        fail("roundup_power2_divisions", divisions)
    return tuple(integer(divisions, key) for key in sorted(divisions, key=int))


def statistics_of(layout: AllocatorMap, device: int) -> AllocatorStatistics:
    """The counters that follow from the map; the peaks are those of the moment."""
    segments = [segment for segment in layout.segments if segment.device == device]
    sums = dict.fromkeys(BlockState, 0)
    requested = blocks = split = 0
    for segment in segments:
        for block in segment.blocks:
            sums[block.state] += block.size_bytes
            if block.state is not BlockState.INACTIVE:
                blocks += 1
                requested += block.requested_bytes
            elif not segment.is_expandable and len(segment.blocks) > 1:
                split += block.size_bytes
    allocated = sums[BlockState.ACTIVE_ALLOCATED]
    active = allocated + sums[BlockState.ACTIVE_PENDING_FREE]
    reserved = sum(segment.size_bytes for segment in segments)
    return AllocatorStatistics(
        device=device,
        requested_bytes=requested,
        allocated_bytes=allocated,
        active_bytes=active,
        reserved_bytes=reserved,
        inactive_split_bytes=split,
        peak_allocated_bytes=allocated,
        peak_active_bytes=active,
        peak_reserved_bytes=reserved,
        segments=sum(not segment.is_expandable for segment in segments),
        blocks=blocks,
        num_alloc_retries=0,
        num_ooms=0,
        num_device_alloc=0,
        num_device_free=0,
        generation=0,
    )
