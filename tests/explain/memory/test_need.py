"""What a step needs: its top, what is held only within it, and where a look was taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.advice import findings
from gputui.explain.advice.held.holders import device_holders
from gputui.explain.answer.verdict import holders_at_top, look_holders, verdict
from gputui.explain.documents.attach import attach_document
from gputui.explain.memory.need import Need, looked_at, need_of, need_words, stem_of
from gputui.explain.moment.probe_state import ProbeState, after, at_top, moment_among
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import Cost, Look, Statistics, Swing
from gputui.model.attached.tensors import Category, Inventory
from gputui.model.attached.timeline import Timeline
from gputui.model.weight import Weight
from gputui.units import GIB, MIB
from tests.explain.maps import layout, statistics
from tests.explain.moments import GREETING, Tensor, row

STAYING = (
    Tensor(200, "model.h.0.weight", Category.PARAMETER),
    Tensor(400, "opt.state[model.h.0.weight].exp_avg", Category.OPTIMIZER_STATE),
)
SAVED = tuple(Tensor(300, f"model.h.{number}: self of MulBackward0", saved_by="MulBackward0") for number in range(4))
LOSS = Tensor(100, "loss", saved_by="NllLossBackward0")
GRADIENTS = Tensor(1500, "model.h.0.weight.grad", Category.GRADIENT)


def look_at(time: float, *tensors: Tensor, reserved_mib: float = 2200) -> Look:
    """A look at these tensors, in a segment that holds the rest of what is reserved, too."""
    live_mib = sum(tensor.mib for tensor in tensors)
    segment, storages = row(*tensors, free=reserved_mib - live_mib)
    modules = [storage.owner.partition(":")[0] if ":" in storage.owner else "" for storage in storages]
    storages = [replace(storage, module=module) for storage, module in zip(storages, modules, strict=True)]
    counted = replace(
        statistics(layout(segment)), peak_allocated_bytes=2000 * MIB, peak_reserved_bytes=int(reserved_mib * MIB)
    )
    inventory = Inventory(tuple(storages), "walk", (), is_complete=True)
    return Look(time, (counted,), None, layout(segment), inventory, Cost(1.0, 1.0))


BOTTOM, TOP = look_at(100.0, *STAYING), look_at(101.0, *STAYING, *SAVED, LOSS)
TRAINING = Swing(0, 600 * MIB, 1900 * MIB, 30.0, 0.5)


def seen(*looks: Look, swing: Swing | None = TRAINING, time: float = 110.0) -> TargetMoment:
    """The moment after these looks, with the counters of the last one."""
    state = ProbeState(GREETING)
    for look in looks:
        state = after(state, look)
    counted = Statistics(time, looks[-1].statistics, None, swings=(swing,) if swing else ())
    return moment_among(after(state, counted), Surroundings(time))


def sentence(moment: TargetMoment, *found: Finding) -> str:
    device = moment.devices[0]
    answer = verdict(moment, device, (), (look_holders(moment, device),), found, holders_at_top(moment, device))
    assert answer is not None
    return answer.sentence


def test_the_need_of_a_step_comes_first_with_the_modules_that_save_most() -> None:
    assert sentence(seen(TOP, BOTTOM)) == (
        "Each step needs up to 2.0 GiB of the device; 1.4 GiB of it only within the step, most of it activations of"
        " model.h (1.2 GiB)."
    )


def test_holders_are_those_near_the_top() -> None:
    moment = seen(TOP, BOTTOM)
    answer = verdict(moment, moment.devices[0], (), (), (), holders_at_top(moment, moment.devices[0]))
    assert answer is not None
    assert max(answer.holders, key=lambda line: line.holder.bytes).holder.name != "free in its cache"


def test_gradients_may_be_most_of_it() -> None:
    top = look_at(101.0, *STAYING, GRADIENTS)
    assert sentence(seen(top, BOTTOM, swing=replace(TRAINING, highest_allocated_bytes=2100 * MIB))).endswith(
        "only within the step, most of it gradients (1.5 GiB)."
    )


def test_nothing_is_said_of_memory_without_an_owner() -> None:
    look = look_at(101.0, *STAYING, LOSS, Tensor(1200, "unknown"))
    storages = tuple(storage for storage in look.inventory.storages if storage.owner != "unknown")
    unnamed = replace(look, inventory=replace(look.inventory, storages=storages))
    assert sentence(seen(unnamed, BOTTOM)) == (
        "Each step needs up to 2.0 GiB of the device; 1.4 GiB of it only within the step, 100 MiB of it activations."
    )


def test_nothing_is_said_of_memory_newer_than_the_last_look() -> None:
    now = seen(BOTTOM).devices[0].layout
    top = replace(now, by_category={**now.by_category, Category.NEWER: 1200 * MIB})
    assert need_words(Need(2000 * MIB, 600 * MIB, 0.5), top, None)[0].endswith("1.4 GiB of it only within the step.")
    higher = replace(top, statistics=replace(top.statistics, allocated_bytes=1800 * MIB))
    assert need_words(Need(2000 * MIB, 600 * MIB, 0.5), higher, now)[0].endswith("of it only within the step.")


def test_nothing_is_said_of_looks_between_which_the_program_has_changed() -> None:
    before = look_at(100.0, STAYING[0])
    grown = look_at(101.0, STAYING[0], Tensor(1600, "opt.state[model.h.0.weight].exp_avg", Category.OPTIMIZER_STATE))
    assert sentence(seen(grown, before)) == (
        "Each step needs up to 2.0 GiB of the device; 1.4 GiB of it only within the step."
    )


def test_without_a_look_near_the_top_only_the_counters_speak() -> None:
    assert sentence(seen(BOTTOM)) == "Each step needs up to 2.0 GiB of the device; 1.4 GiB of it only within the step."


def test_a_program_without_steps_needed_it_in_the_last_minute() -> None:
    held = look_at(100.0, Tensor(200, "weights", Category.BUFFER))
    words = sentence(seen(held, swing=Swing(0, 200 * MIB, 1900 * MIB, 60.0)))
    assert words == "The program needed up to 2.0 GiB of the device in the last minute; 1.8 GiB of it for a while."


def test_what_grows_comes_before_what_a_step_needs() -> None:
    leak = Finding(Weight.PROBLEM, "losses grows", (), bytes=MIB, owners=("losses",), kind="leak")
    assert not sentence(seen(TOP, BOTTOM), leak).startswith("Each step")


def test_memory_that_the_next_step_takes_back_is_not_called_free_where_something_grows() -> None:
    leak = Finding(Weight.PROBLEM, "losses grows", (), bytes=MIB, owners=("losses",), kind="leak")
    assert "The most PyTorch memory is held by the states of opt: 400 MiB" in sentence(seen(BOTTOM), leak)
    assert "Most of PyTorch's memory is free in its cache" in sentence(seen(BOTTOM, swing=None), leak)


@pytest.mark.parametrize(
    ("highest_mib", "peak_mib", "need_mib"),
    [(1900, 2000, 2000), (1900, 4000, 1900), (1900, 2500, 2500)],
    ids=["reads come near the peak", "the peak was of another phase", "the very top lasts too short for a read"],
)
def test_the_need_is_the_peak_where_reads_come_near_it(highest_mib: int, peak_mib: int, need_mib: int) -> None:
    device = seen(TOP, BOTTOM, swing=replace(TRAINING, highest_allocated_bytes=highest_mib * MIB)).devices[0]
    device = replace(device, statistics=replace(device.statistics, peak_allocated_bytes=peak_mib * MIB))
    need = need_of(device)
    assert need is not None
    assert need.highest_bytes == need_mib * MIB


@pytest.mark.parametrize("swing", [None, Swing(0, 1990 * MIB, 2000 * MIB, 30.0, 0.5)], ids=["unseen", "hardly moves"])
def test_memory_that_does_not_move_has_no_need(swing: Swing | None) -> None:
    moment = seen(BOTTOM, swing=swing)
    assert need_of(moment.devices[0]) is None
    assert at_top(moment) is None
    assert attach_document(moment)["devices"][0]["step"] is None


@pytest.mark.parametrize(
    ("look", "where"),
    [(TOP, "top"), (BOTTOM, "bottom"), (look_at(102.0, *STAYING, *SAVED[:2]), "between")],
    ids=["top", "bottom", "between"],
)
def test_the_document_says_where_in_the_step_the_look_was_taken(look: Look, where: str) -> None:
    moment = seen(look)
    assert looked_at(moment.devices[0]) == where
    assert attach_document(moment)["devices"][0]["step"] == {
        "highest_allocated_bytes": 2000 * MIB,
        "lowest_allocated_bytes": 600 * MIB,
        "seconds": 0.5,
        "looked_at": where,
    }


def test_the_picture_of_the_top_has_the_counters_of_its_look() -> None:
    top = at_top(seen(TOP, BOTTOM))
    assert top is not None
    assert (top.is_top, top.look_time) == (True, TOP.time)
    assert top.devices[0].statistics == TOP.statistics[0]
    assert top.devices[0].layout is not None
    assert sum(top.devices[0].layout.by_category.values()) == TOP.statistics[0].allocated_bytes


def test_an_old_top_gives_way() -> None:
    later = replace(BOTTOM, time=TOP.time + 61.0)
    assert seen(TOP, later).top_look == later
    assert seen(TOP, replace(BOTTOM, time=TOP.time + 59.0)).top_look == TOP


def test_the_top_does_not_sink_look_by_look() -> None:
    looks = [look_at(TOP.time + number, Tensor(mib, "x")) for number, mib in enumerate((1000, 960, 920, 880, 840))]
    assert seen(*looks).top_look == looks[1]
    assert seen(*looks, look_at(TOP.time + 70.0, Tensor(600, "x"))).top_look.time == TOP.time + 70.0


@pytest.mark.parametrize(("idle_s", "is_still"), [(10.0, False), (20.0, True)])
def test_a_program_that_does_no_more_steps_is_said_to_stand_still(idle_s: float, is_still: bool) -> None:  # noqa: FBT001
    first = seen(TOP, BOTTOM, time=110.0)
    last = replace(first, time=110.0 + idle_s)
    counters = Timeline(first, last).counters(0)
    answer = verdict(last, last.devices[0], counters, (), (), holders_at_top(last, last.devices[0]))
    assert answer is not None
    assert answer.sentence.startswith("Each step needs up to 2.0 GiB")
    assert ("Nothing has moved since" in answer.sentence) is is_still


def test_without_steps_it_is_the_program_that_takes_it_back() -> None:
    moment = seen_with_cache(replace(TRAINING, step_s=None))
    (release,) = [finding for finding in findings(moment, 0) if finding.kind == "release"]
    assert release.title.endswith(", and the program takes 1.4 GiB of it back.")


def test_what_empty_cache_would_return_is_told_with_what_the_next_step_takes_back() -> None:
    moment = seen(TOP, look_at(102.0, *STAYING, reserved_mib=600), swing=TRAINING)
    (release,) = [finding for finding in findings(seen_with_cache(), 0) if finding.kind == "release"]
    assert release.title == "empty_cache() would return 3.0 GiB now, and the next step takes 1.4 GiB of it back."
    assert not [f for f in findings(moment, 0) if f.kind == "release" and "takes" in f.title]


def seen_with_cache(swing: Swing = TRAINING) -> TargetMoment:
    """The bottom of a step, with 3 GiB in a segment of their own that is free."""
    live, storages = row(*STAYING)
    free, _ = row(free=3 * 1024, address=live.address + 8 * GIB)
    counted = replace(statistics(layout(live, free)), peak_allocated_bytes=2000 * MIB)
    inventory = Inventory(tuple(storages), "walk", (), is_complete=True)
    return seen(TOP, Look(105.0, (counted,), None, layout(live, free), inventory, Cost(1.0, 1.0)), swing=swing)


def test_the_innermost_module_that_has_most_is_named() -> None:
    layers = {f"model.h.{number}.mlp": 10 for number in range(12)}
    assert stem_of({**layers, "model.lm_head": 30, "": 5}) == ("model.h", 120)
    assert stem_of({"": 5}) == ("", 0)


def test_what_a_step_needs_of_the_cache_stands_beside_it() -> None:
    moment = seen(BOTTOM)
    free = next(holder for holder in device_holders(moment.devices[0], ()) if holder.name == "free in its cache")
    assert free.keeps.startswith("each step needs 1.4 GiB of it")
    moment = seen(BOTTOM, swing=None)
    free = next(holder for holder in device_holders(moment.devices[0], ()) if holder.name == "free in its cache")
    assert "step" not in free.keeps
