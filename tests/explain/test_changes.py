"""Two moments of one device: what came, what went, and the moments that marks keep."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.changes import changes
from gputui.model.moment import TargetMoment
from gputui.model.target import Mark
from gputui.model.tensors import Category
from gputui.model.timeline import MARKED_MOMENTS, WHOLE_MOMENTS, Timeline
from gputui.units import MIB
from tests.explain.maps import segment
from tests.explain.moments import Tensor, moment, row

P, G = Category.PARAMETER, Category.GRADIENT
WEIGHT, GRADIENT = Tensor(8, "model.weight", P), Tensor(8, "model.weight.grad", G)


def between(before: TargetMoment, after: TargetMoment):
    return changes(before.devices[0], after.devices[0])


def test_what_came_and_went_is_grouped_and_adds_up():
    before = moment(row(WEIGHT, Tensor(2, "mask"), free=90))
    after = moment(row(WEIGHT, free=2), row(GRADIENT, GRADIENT, Tensor(3, "logits"), address=1 << 40))
    found = between(before, after)
    assert [(group.count, group.bytes // MIB, group.names) for group in found.came] == [
        (2, 16, ("model.weight.grad",)),
        (1, 3, ("logits",)),
    ]
    assert [(group.count, group.bytes // MIB, group.names) for group in found.went] == [(1, 2, ("mask",))]
    assert found.stayed_bytes == 8 * MIB
    assert found.came_bytes - found.went_bytes == found.after.allocated_bytes - found.before.allocated_bytes


def test_between_a_moment_and_itself_nothing_happened():
    same = moment(row(WEIGHT, GRADIENT, free=4))
    found = between(same, same)
    assert (found.came, found.went, found.stayed_bytes) == ((), (), 16 * MIB)


def test_a_tensor_at_another_address_went_and_came():
    found = between(moment(row(WEIGHT)), moment(row(WEIGHT, address=1 << 40)))
    assert found.came_bytes == found.went_bytes == 8 * MIB


def test_blocks_that_nobody_owns_are_told_by_address():
    found = between(moment(segment(("live", 4))), moment(segment(("live", 4), ("live", 6))))
    assert [(group.category, group.bytes // MIB) for group in found.came] == [(Category.UNATTRIBUTED, 6)]
    assert found.went == ()


def test_without_a_look_only_counters_are_compared():
    before = moment(row(WEIGHT))
    blind = replace(before, devices=(replace(before.devices[0], layout=None),))
    found = between(blind, moment(row(WEIGHT, GRADIENT)))
    assert found.problem == "There was no look at the first moment: only the counters can be compared."
    assert (found.came, found.went) == ((), ())
    assert found.after.allocated_bytes - found.before.allocated_bytes == 8 * MIB


def seen(time: float, look_time: float, *marks: Mark) -> TargetMoment:
    return replace(moment(row(WEIGHT), marks=marks, time=time), look_time=look_time)


def test_a_mark_keeps_the_first_look_after_it():
    mark, timeline = Mark(10.0, "after forward"), Timeline()
    for time, look_time in ((9, 8), (10.5, 8), (11, 10.8), (12, 11.9)):
        timeline.add(seen(time, look_time, *([mark] if time > 10 else [])))
    assert [(each.label, kept.look_time) for each, kept in timeline.marked] == [("after forward", 10.8)]


def test_a_mark_after_which_nothing_changed_keeps_the_look_before_it():
    timeline = Timeline()
    for time in (10.5, 11, 12):
        timeline.add(seen(time, 8, Mark(10.0, "idle")))
    assert [(each.label, kept.look_time) for each, kept in timeline.marked] == [("idle", 8)]


def test_marked_moments_outlive_the_others_up_to_a_number():
    timeline, mark = Timeline(), Mark(0.5, "early")
    for time in range(1, WHOLE_MOMENTS + 10):
        timeline.add(seen(time, time, mark))
    assert len(timeline.moments) == WHOLE_MOMENTS
    assert timeline.moments[0].time > 1
    assert [kept.time for _, kept in timeline.marked] == [1]
    many = tuple(Mark(1000.0 + n, str(n)) for n in range(MARKED_MOMENTS + 5))
    timeline.add(seen(2000, 2000, mark, *many))
    assert [each.label for each, _ in timeline.marked] == [str(n) for n in range(5, MARKED_MOMENTS + 5)]


def test_whose_a_block_is_may_be_known_at_one_moment_only():
    named, nameless = moment(row(WEIGHT, GRADIENT)), moment(segment(("live", 8), ("live", 8), ("live", 2)))
    found = between(named, nameless)
    assert (found.went, found.stayed_bytes) == ((), 16 * MIB)
    assert [(group.category, group.bytes // MIB) for group in found.came] == [(Category.UNATTRIBUTED, 2)]
    back = between(nameless, named)
    assert (back.came, back.stayed_bytes) == ((), 16 * MIB)
