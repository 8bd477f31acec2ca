"""What a container that gets longer has by now: named first, with its figure, before the next look comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.answer.estimates import need_beside, rising
from gputui.explain.answer.verdict import Verdict, look_holders, verdict
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Swing
from gputui.model.attached.tensors import Category, Container
from gputui.model.weight import Weight
from gputui.units import GIB, MIB
from tests.explain.moments import Tensor, moment, row, story

MODEL = Tensor(100, "model.0.weight", Category.PARAMETER)
STATES = Tensor(800, "optimizer.state[model.0.weight].exp_avg", Category.OPTIMIZER_STATE)
NEWER = "tensors newer than the last look"
PLACE = " (train.py:9 in step)"


def look(time: float, elements: int) -> TargetMoment:
    """A look at a list of tensors of 10 MiB."""
    seen = [Tensor(10, f"seen[{number}]{PLACE}", Category.OTHER) for number in range(elements)]
    return moment(row(MODEL, Tensor(30, "x" + PLACE, Category.OTHER), *seen), time=time)


def later(last: TargetMoment, seconds: float, newer_mib: int) -> TargetMoment:
    """The counters some seconds after a look."""
    device = last.devices[0]
    counters = device.statistics
    sizes = (size + newer_mib * MIB for size in (counters.allocated_bytes, counters.reserved_bytes))
    allocated_bytes, reserved_bytes = sizes
    grown = replace(counters, allocated_bytes=allocated_bytes, reserved_bytes=reserved_bytes)
    return replace(last, time=last.time + seconds, devices=(replace(device, statistics=grown),))


def said(now: TargetMoment, *looks: TargetMoment) -> Verdict:
    answer = verdict(now, now.devices[0], looks=[look_holders(one, one.devices[0]) for one in looks])
    assert answer is not None
    return answer


GROWS = [look(time, elements) for time, elements in ((100.0, 4), (102.0, 8), (104.0, 12))]
"""By 20 MiB a second."""


@pytest.mark.parametrize(
    ("newer_mib", "held_mib"), [(200, 320), (250, 320), (40, 160)], ids=["all of it", "no more", "what there is"]
)
def test_what_is_newer_is_held_by_what_grows_as_far_as_it_grows(newer_mib: int, held_mib: int):
    answer = said(later(GROWS[-1], 10.0, newer_mib), *GROWS)
    assert f"held by seen (train.py:9 in step): {held_mib} MiB" in answer.sentence
    assert sum(line.holder.bytes for line in answer.holders) == (100 + 30 + 120 + newer_mib) * MIB


NO_RISE = {
    "it was emptied": (12, 4, 8),
    "it is full": (4, 12, 12, 12, 12, 12),
    "two looks are too few": (4, 12),
    "it is new": (12,),
}


@pytest.mark.parametrize("lengths", NO_RISE.values(), ids=NO_RISE)
def test_a_list_that_does_not_go_on_to_grow_gets_nothing(lengths: tuple[int, ...]):
    looks = [look(100.0 + number, length) for number, length in enumerate(lengths)]
    assert rising([look_holders(one, one.devices[0]) for one in looks]) is None


def test_looks_in_quick_turn_may_find_it_as_long_as_before():
    looks = [look(100.0 + number / 10, length) for number, length in enumerate((4, 4, 5, 5, 6))]
    rise = rising([look_holders(one, one.devices[0]) for one in looks])
    assert rise is not None
    assert rise.bytes_per_s == pytest.approx(50 * MIB)


@pytest.mark.parametrize(("highest_mib", "within_mib"), [(500, None), (1000, 400)])
def test_what_rises_and_stays_is_no_part_of_a_step(highest_mib: int, within_mib: int | None):
    swing = Swing(0, 150 * MIB, highest_mib * MIB, seconds=22.5, step_s=0.5)
    device = replace(GROWS[-1].devices[0], swing=swing)
    rise = rising([look_holders(one, one.devices[0]) for one in GROWS])
    need = need_beside(device, rise)
    assert (need and need.within_bytes) == (within_mib and within_mib * MIB)
    assert need_beside(device, None) is not None


def test_a_growing_variable_is_named_before_the_counters_show_its_growth():
    seen = moment(row(MODEL, STATES, Tensor(90, "seen[0]" + PLACE, Category.OTHER)))
    device = seen.devices[0]
    sentences = []
    for weight in (Weight.PROBLEM, Weight.ADVICE):
        leak = Finding(weight, "", (), owners=("seen",), bytes=90 * MIB, kind="leak")
        answer = verdict(seen, device, looks=[look_holders(seen, device)], findings=[leak])
        assert answer is not None
        sentences.append(answer.sentence)
    assert sentences[0].startswith("seen grows: 90.0 MiB by now. Most of PyTorch's memory is held by the states")
    assert sentences[1].startswith("Most of PyTorch's memory is held by the states")


def test_a_leak_of_host_memory_takes_no_device_memory_from_blocks_without_a_name():
    tensors = [*(Tensor(4 / MIB, f"losses[{number}]", Category.OTHER) for number in range(8)), Tensor(2048, None)]
    looks = []
    for count in range(10_000, 16_000, 1000):
        graphs = {"read": 8, "graphs": 8, "walked": 4, "nodes": 1200}
        losses = Container(1, "losses", "", "", "list", count, **graphs)
        looks.append(moment(row(*tensors), time=count / 200, containers=(losses,), is_complete=False))
    leak, device = story(*looks).findings()["leak"], looks[-1].devices[0]
    assert "GiB of host memory" in leak.title
    answer = verdict(looks[-1], device, looks=[look_holders(looks[-1], device)], findings=[leak])
    assert answer is not None
    assert [(line.holder.key[0], line.holder.bytes) for line in answer.holders] == [("unattributed", 2 * GIB)]
    assert answer.suspect == ""


@pytest.mark.parametrize(("newer_mib", "holder"), [(2600, "the states of optimizer"), (2800, NEWER)])
def test_what_is_newer_than_the_look_is_named_first_only_if_it_is_nearly_all(newer_mib: int, holder: str):
    seen = moment(row(MODEL, STATES))
    assert f"held by {holder}: " in said(later(seen, 1.0, newer_mib), seen).sentence
