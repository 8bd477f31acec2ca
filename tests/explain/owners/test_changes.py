"""Two moments of one device: what was allocated, what was freed, and the moments that marks keep."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.owners.changes import changes
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Mark
from gputui.model.attached.tensors import Category
from gputui.model.attached.timeline import MARKED_MOMENTS, WHOLE_MOMENTS, Timeline
from gputui.units import MIB
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row

P, G = Category.PARAMETER, Category.GRADIENT
WEIGHT, GRADIENT = Tensor(8, "model.weight", P), Tensor(8, "model.weight.grad", G)


def between(before: TargetMoment, after: TargetMoment):
    return changes(before.devices[0], after.devices[0])


def test_allocated_and_freed_tensors_are_grouped_and_add_up():
    before = moment(row(WEIGHT, Tensor(2, "mask"), free=90))
    after = moment(row(WEIGHT, free=2), row(GRADIENT, GRADIENT, Tensor(3, "logits"), address=1 << 40))
    changes = between(before, after)
    assert [(group.count, group.bytes // MIB, group.names) for group in changes.came] == [
        (2, 16, ("model.weight.grad",)),
        (1, 3, ("logits",)),
    ]
    assert [(group.count, group.bytes // MIB, group.names) for group in changes.went] == [(1, 2, ("mask",))]
    assert changes.stayed_bytes == 8 * MIB
    assert changes.came_bytes - changes.went_bytes == changes.after.allocated_bytes - changes.before.allocated_bytes


def test_a_moment_compared_with_itself_has_no_changes():
    same = moment(row(WEIGHT, GRADIENT, free=4))
    changes = between(same, same)
    assert (changes.came, changes.went, changes.stayed_bytes) == ((), (), 16 * MIB)


def test_a_moved_tensor_counts_as_freed_and_allocated():
    changes = between(moment(row(WEIGHT)), moment(row(WEIGHT, address=1 << 40)))
    assert changes.came_bytes == changes.went_bytes == 8 * MIB


def test_unattributed_blocks_are_matched_by_address():
    changes = between(moment(segment(("live", 4))), moment(segment(("live", 4), ("live", 6))))
    assert [(group.category, group.bytes // MIB) for group in changes.came] == [(Category.UNATTRIBUTED, 6)]
    assert changes.went == ()


def test_without_a_look_only_counters_are_compared():
    before = moment(row(WEIGHT))
    blind = replace(before, devices=(replace(before.devices[0], layout=None),))
    changes = between(blind, moment(row(WEIGHT, GRADIENT)))
    assert changes.problem == "There was no look at the first moment: only the counters can be compared."
    assert (changes.came, changes.went) == ((), ())
    assert changes.after.allocated_bytes - changes.before.allocated_bytes == 8 * MIB


def seen(time: float, look_time: float, *marks: Mark) -> TargetMoment:
    return replace(moment(row(WEIGHT), marks=marks, time=time), look_time=look_time)


def test_a_mark_keeps_the_first_look_after_it():
    mark, timeline = Mark(10.0, "after forward"), Timeline()
    for time, look_time in ((9, 8), (10.5, 8), (11, 10.8), (12, 11.9)):
        timeline.add(seen(time, look_time, *([mark] if time > 10 else [])))
    assert [(mark.label, kept.look_time) for mark, kept in timeline.marked] == [("after forward", 10.8)]


def test_a_mark_followed_by_no_change_keeps_the_look_before_it():
    timeline = Timeline()
    for time in (10.5, 11, 12):
        timeline.add(seen(time, 8, Mark(10.0, "idle")))
    assert [(mark.label, kept.look_time) for mark, kept in timeline.marked] == [("idle", 8)]


def test_marked_moments_are_kept_longer_up_to_a_limit():
    timeline, mark = Timeline(), Mark(0.5, "early")
    for time in range(1, WHOLE_MOMENTS + 10):
        timeline.add(seen(time, time, mark))
    assert len(timeline.moments) == WHOLE_MOMENTS
    assert timeline.moments[0].time > 1
    assert [kept.time for _, kept in timeline.marked] == [1]
    many = tuple(Mark(1000.0 + n, str(n)) for n in range(MARKED_MOMENTS + 5))
    timeline.add(seen(2000, 2000, mark, *many))
    assert [mark.label for mark, _ in timeline.marked] == [str(n) for n in range(5, MARKED_MOMENTS + 5)]


def test_a_block_named_at_one_moment_only_counts_as_unchanged():
    named, nameless = moment(row(WEIGHT, GRADIENT)), moment(segment(("live", 8), ("live", 8), ("live", 2)))
    changes = between(named, nameless)
    assert (changes.went, changes.stayed_bytes) == ((), 16 * MIB)
    assert [(group.category, group.bytes // MIB) for group in changes.came] == [(Category.UNATTRIBUTED, 2)]
    back = between(nameless, named)
    assert (back.came, back.stayed_bytes) == ((), 16 * MIB)
