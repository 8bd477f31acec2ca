"""Looks without tensors: which names they take from an earlier look, and what is derived from them."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.moment.probe_state import ProbeState, after, moment_of
from gputui.model.attached.allocator import Segment
from gputui.model.attached.moment import HostMoment, TargetMoment
from gputui.model.attached.target import Cost, Look
from gputui.model.attached.tensors import HOST, Category, Inventory, KnownSize, Storage
from gputui.units import MIB
from tests.explain.maps import layout, segment, statistics
from tests.explain.moments import GREETING, Tensor, row, story
from tests.explain.named import named

P, X, W, UNATTRIBUTED = Category.PARAMETER, Category.OTHER, Category.WORKSPACE, Category.UNATTRIBUTED
WEIGHT, BATCH = Tensor(8, "model.w", P), Tensor(4, "batch", X)
ON_HOST = Storage(HOST, 4096, 1000, P, named("model.embedding"), "Parameter", (250,), "float32")


def look(time: float, *rows: tuple[Segment, list[Storage]], is_bare: bool = True, **inventory) -> Look:
    made = layout(*(segment for segment, _ in rows))
    storages = (*(storage for _, storages in rows for storage in storages), ON_HOST)
    seen = None if is_bare else Inventory(storages, "walk", is_of_one_moment=True, **inventory)
    counted = statistics(made, generation=int(time))
    return Look(time, (counted,), made.settings, made, seen, Cost(1, 1))


def state(*looks: Look) -> list[TargetMoment]:
    """The moments after each look."""
    known, moments = ProbeState(GREETING), []
    for seen in looks:
        known = after(known, seen)
        storages = tuple(s for s in known.look.inventory.storages if s.device == HOST) if known.look.inventory else ()
        moments.append(moment_of(seen.time, known, {}, HostMoment(storages=storages)))
    return moments


def layout_after(*looks: Look):
    return state(*looks)[-1].devices[0].layout


def names(*looks: Look) -> dict[str, int]:
    """MiB of each live block by owner, or by category if it has no owner."""
    return {
        blocker.owner.name or blocker.owner.category.value: blocker.block.size_bytes // MIB
        for release in layout_after(*looks).release.segments
        for blocker in release.blockers
    }


def test_an_unchanged_block_keeps_its_name_and_a_new_block_is_newer_than_the_look():
    named = look(100, row(WEIGHT, BATCH, free=8), is_bare=False)
    later = look(103, row(WEIGHT, BATCH, Tensor(6, "logits"), free=2))
    assert names(named, later) == {"model.w": 8, "batch": 4, "newer": 6}
    made = layout_after(named, later)
    assert made.by_category[P] == 8 * MIB
    assert sum(made.by_category.values()) == made.statistics.allocated_bytes
    assert (made.names_time, [storage.owner for storage in made.storages]) == (100, ["model.w", "batch"])


def test_a_block_whose_size_or_request_changed_loses_its_name():
    named = look(100, row(WEIGHT, free=8), is_bare=False)
    assert names(named, look(101, row(Tensor(6, "x"), free=10))) == {"newer": 6}
    made, storages = row(WEIGHT, free=8)
    asked_for_less = tuple(replace(block, requested_bytes=block.requested_bytes - 512) for block in made.blocks)
    assert names(named, look(101, (replace(made, blocks=asked_for_less), storages))) == {"newer": 8}


def test_a_name_comes_from_the_newest_look_that_had_the_block():
    first, gone = look(100, row(WEIGHT, BATCH), is_bare=False), look(101, row(WEIGHT, free=4))
    assert names(first, gone, look(102, row(WEIGHT, BATCH))) == {"model.w": 8, "batch": 4}
    second = look(103, row(Tensor(8, "other.w", P), BATCH), is_bare=False)
    assert names(first, gone, second, look(104, row(WEIGHT, BATCH))) == {"other.w": 8, "batch": 4}


def test_without_an_earlier_look_at_tensors_blocks_are_unattributed():
    assert names(look(100, row(WEIGHT))) == {"unattributed": 8}
    assert layout_after(look(100, row(WEIGHT))).names_time == 0.0


def test_a_look_with_tensors_uses_its_own_names_only():
    first, second = (look(time, row(tensor), is_bare=False) for time, tensor in ((100, WEIGHT), (101, Tensor(8, "x"))))
    assert names(first, second) == {"x": 8}
    assert layout_after(first, second).names_time == 101


def test_a_new_block_stays_newer_than_the_look_until_the_tensors_are_looked_at_again():
    parts = row(WEIGHT, Tensor(6, "logits"))
    named, later = look(100, row(WEIGHT), is_bare=False), [look(101, parts), look(102, parts)]
    assert names(named, *later) == {"model.w": 8, "newer": 6}
    assert names(named, *later, look(103, parts, is_bare=False)) == {"model.w": 8, "logits": 6}


def test_a_look_at_part_of_the_tensors_leaves_the_other_names():
    whole = look(100, row(WEIGHT, BATCH), is_bare=False)
    segment_, storages = row(WEIGHT, BATCH)
    part = look(101, (segment_, storages[1:]), is_bare=False, is_complete=False)
    assert names(whole, part) == {"model.w": 8, "batch": 4}


def test_a_walk_leaves_the_names_that_only_a_scan_can_find():
    hidden, graph = Tensor(4, "<list>[0]", X), Tensor(2, "logits")
    scan = look(100, row(WEIGHT, hidden, graph), is_bare=False)
    scan = replace(scan, inventory=replace(scan.inventory, how="scan"))
    segment_, storages = row(WEIGHT, hidden, graph)
    walk = look(101, (segment_, storages[:1]), is_bare=False)
    assert names(scan, walk) == {"model.w": 8, "<list>[0]": 4, "unattributed": 2}


def test_a_look_without_the_map_names_the_blocks_of_the_last_map():
    first = look(100, row(WEIGHT, BATCH))
    without_map = replace(look(101, row(WEIGHT, BATCH), is_bare=False), map=None)
    assert names(first, without_map) == {"model.w": 8, "batch": 4}
    known = after(after(ProbeState(GREETING), first), without_map)
    assert not known.look.inventory.is_of_one_moment
    assert names(first, without_map, look(102, row(WEIGHT, free=4))) == {"model.w": 8}


def test_known_sizes_and_host_tensors_are_kept_from_earlier_looks():
    size = KnownSize(0, 4 * MIB, W, "cuBLAS workspace")
    parts = [row(WEIGHT), (segment(("live", 4), address=1 << 40), [])]
    named = look(100, *parts, is_bare=False, known_sizes=(size,))
    assert names(named, look(101, *parts)) == {"model.w": 8, "cuBLAS workspace": 4}
    assert state(named, look(101, *parts))[-1].host.storages == (ON_HOST,)


def test_a_leak_is_found_when_only_one_look_read_the_tensors():
    growing = [row(WEIGHT, *(Tensor(8, f"history[{n}]", X) for n in range(2 + count))) for count in range(9)]
    moments = state(*(look(100 + n, parts, is_bare=n > 0) for n, parts in enumerate(growing)))
    leak = story(*moments).findings()["leak"]
    assert leak.title == "A leak: the program keeps more and more tensors, 56.0 MiB more since the first look."
    assert leak.evidence[-1].startswith("From 3 to 10 blocks other than parameters, gradients, optimizer states")
    steady = [row(WEIGHT, *(Tensor(8, f"history[{n}]", X) for n in range(5 + count % 2))) for count in range(9)]
    calm = state(*(look(100 + n, parts, is_bare=n > 0) for n, parts in enumerate(steady)))
    assert "leak" not in story(*calm).findings()
