"""The outcome of an action in words: the prediction, the result, why they may differ, and how long it took."""

from __future__ import annotations

import pytest

from gputui.explain.moment.actions import ACTIONS, outcome_of
from gputui.model.attached.target import ActionCounters, ActionName, ActionResult
from gputui.probe.viewers import actions as probe_actions
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment

MADE = layout(
    segment(("free", 40)),
    segment(("live", 2), ("free", 18), address=BASE * 2),
    segment(("free", 8), address=BASE * 3, device=1),
)


def device(index: int, reserved: tuple[int, int], allocated: tuple[int, int] = (2 * MIB, 2 * MIB)) -> ActionCounters:
    return ActionCounters(index, *reserved, *allocated)


def result(name: ActionName, *devices: ActionCounters, **more: object) -> ActionResult:
    return ActionResult(1.0, name, 0.0031, devices, **more)


MENU_COLUMNS = 63
"""Those of a dialog on a terminal of 80 columns, without the letter."""
GIVEN = (device(0, (60 * MIB, 20 * MIB)), device(1, (8 * MIB, 0)))

CASES = [
    pytest.param(
        result(ActionName.EMPTY_CACHE, *GIVEN, map=MADE),
        "torch.cuda.empty_cache(): 40.0 MiB predicted, 40.0 MiB returned on device 0; 8.0 MiB predicted, 8.0 MiB"
        " returned on device 1. It took 3.1 ms.",
        True,
        id="as predicted",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, device(0, (20 * MIB, 20 * MIB)), map=layout(segment(("live", 20)))),
        "torch.cuda.empty_cache(): nothing predicted, nothing returned. It took 3.1 ms.",
        True,
        id="nothing to return",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, device(0, (60 * MIB, 60 * MIB)), map=MADE),
        "torch.cuda.empty_cache(): 40.0 MiB predicted, 0 B returned on device 0. They differ because other threads"
        " of the program allocate and free while the driver takes memory back. It took 3.1 ms.",
        False,
        id="the program allocated it again",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, device(0, (60 * MIB, 80 * MIB)), map=MADE),
        "40.0 MiB predicted, -20.0 MiB returned on device 0. They differ",
        False,
        id="the program allocated more",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, device(0, (60 * MIB, 20 * MIB + 512)), map=MADE),
        "40.0 MiB predicted, 40.0 MiB (-512 B) returned on device 0. They differ",
        False,
        id="a difference below the rounding",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, device(0, (60 * MIB, 20 * MIB))),
        "no prediction, because this allocator has no map; returned: 40.0 MiB on device 0.",
        False,
        id="no map",
    ),
    pytest.param(
        result(ActionName.COLLECT, device(0, (60 * MIB, 60 * MIB), (50 * MIB, 30 * MIB)), collected=1200),
        "gc.collect(): 1,200 objects collected, 20.0 MiB of tensors freed on"
        " device 0. PyTorch keeps that memory in its cache. It took 3.1 ms.",
        True,
        id="a collection that frees tensors",
    ),
    pytest.param(
        result(ActionName.COLLECT, collected=1),
        "gc.collect(): 1 object collected, no tensor freed. It took 3.1 ms.",
        True,
        id="a collection that frees no tensor",
    ),
    pytest.param(
        result(ActionName.HISTORY_ON),
        "Memory history on: blocks allocated from now on record the line",
        True,
        id="history on",
    ),
    pytest.param(
        result(ActionName.HISTORY_OFF),
        "Memory history off: blocks allocated from now on record no line",
        True,
        id="history off",
    ),
    pytest.param(
        result(ActionName.EMPTY_CACHE, reason="A CUDA graph is being captured."),
        "torch.cuda.empty_cache() was not run. A CUDA graph is being captured.",
        False,
        id="refused",
    ),
]


@pytest.mark.parametrize(("result_of_action", "text", "is_as_predicted"), CASES)
def test_an_outcome_is_described_in_sentences(result_of_action: ActionResult, text: str, is_as_predicted) -> None:
    outcome = outcome_of(result_of_action)
    assert text in " ".join(outcome.sentences)
    assert outcome.is_as_predicted == is_as_predicted


def test_the_viewer_and_the_probe_have_the_same_actions():
    assert set(ACTIONS) == set(ActionName)
    assert {name.value for name in ACTIONS} == {*probe_actions.ACTIONS, probe_actions.RECORD_STEP}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda action: action.name.value)
def test_the_menu_has_room_for_an_action_in_80_columns(action):
    assert len(action.title) <= MENU_COLUMNS


def test_how_long_a_recorded_step_took_is_said_once():
    words = outcome_of(ActionResult(1.0, ActionName.RECORD_STEP, 3.6, ())).sentences
    assert " ".join(words) == "Step: recorded; the Step screen shows it. It took 3.6 s."
