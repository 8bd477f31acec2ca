"""The holders at the highest point of a step that a program can stop at, against a look that it takes there itself."""

from __future__ import annotations

import pytest

from gputui.explain.owners.owners import block_bytes
from gputui.explain.step.kinds import Kind
from gputui.explain.step.step import Step
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.tensors import Category
from gputui.sources.files.black_box import read
from tests.attach.children import Python
from tests.attach.test_step import LOOP, PROGRAMS, recorded_step

BY_HAND = """
    from gputui.probe.black_box import files, error_look
    from gputui.probe.viewers import step as recorder
    from torch.nn.modules.module import register_module_forward_hook
    error_look.READING_MS = 20_000.0
    recorder.BEFORE_S, recorder.AT_LEAST_S = 0.1, 0.5
    levels, wanted = [], None

    def note(*_):
        levels.append(torch.cuda.memory_allocated())
        if len(levels) - 1 == wanted:
            look = error_look.ErrorLook(torch, error_look.MemoryRequest(0, 1, 1, 1), 1)
            files.write("by-hand", "look", 1, look.messages())

    def watch(module, inputs, output):
        note()
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(note)

    def look_at_the_peak(step):
        global wanted
        for _ in range(3):
            step()
        hook = register_module_forward_hook(watch)
        step()
        wanted = levels.index(max(levels))
        levels.clear()
        step()
        hook.remove()
"""
SLACK = 0.02
"""Of the allocated bytes: some blocks count as saved for one and as temporaries for the other."""
EXACT = ("parameter", "buffer", "optimizer_state")
Groups = dict[str, int]


def groups_traced(held: dict[Kind, int]) -> Groups:
    """A gradient that no parameter has yet is a temporary for one of the two: they are counted together."""
    return {
        "parameter": held.get(Kind.PARAMETER, 0),
        "buffer": held.get(Kind.BUFFER, 0),
        "optimizer_state": held.get(Kind.OPTIMIZER_STATE, 0),
        "activation": held.get(Kind.ACTIVATION, 0),
        "from backward": held.get(Kind.GRADIENT, 0) + held.get(Kind.TEMPORARY, 0),
        "workspace": held.get(Kind.OTHER, 0),
    }


def groups_looked(moment: TargetMoment) -> Groups:
    """The same of the look by hand.

    Before PyTorch 2.10 a look does not know what is saved for backward. An input that is no variable any more is then a
    tensor without a name, the others have no owner.
    """
    (device, *_), look = moment.devices, moment.look
    assert device.layout is not None
    assert look is not None
    assert look.map is not None
    held = device.layout.by_category
    blocks = block_bytes(look.map, device.layout.owners, device.index)
    nameless = sum(size_bytes for owner, size_bytes in blocks if owner.name.startswith("unnamed"))
    inputs = 0 if knows_saved(moment) else nameless
    return {
        "parameter": held[Category.PARAMETER],
        "buffer": held[Category.BUFFER],
        "optimizer_state": held[Category.OPTIMIZER_STATE],
        "activation": held[Category.ACTIVATION] + held[Category.UNATTRIBUTED] + inputs,
        "from backward": held[Category.GRADIENT] + held[Category.OTHER] - inputs,
        "workspace": held[Category.WORKSPACE],
    }


def knows_saved(moment: TargetMoment) -> bool:
    """Whether a look in this version of PyTorch knows what is saved for backward."""
    major, minor = moment.greeting.torch.split(".")[:2]
    return (int(major), int(minor)) >= (2, 10)


def same_moments(step: Step, device: DeviceMoment) -> list[int]:
    """The events of the step after which about as much is allocated as in the look."""
    counted_bytes, allocated = device.statistics.allocated_bytes, step.timeline.allocated
    return [
        event for event in range(step.first, step.end) if abs(allocated[event] - counted_bytes) <= SLACK * counted_bytes
    ]


@pytest.mark.every_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_holders_are_those_of_a_look_taken_there_by_hand(name: str, torch_python: Python) -> None:
    if not torch_python.environment.get("FAKEGPU_STATE"):
        return  # a CPU build
    source = LOOP + BY_HAND + PROGRAMS[name] + "\n    look_at_the_peak(step)\n    train(step)\n"
    child = torch_python.fork(source)
    child.expect("ready")
    step, _ = recorded_step(child)
    (box,) = (torch_python.folder / "by-hand").iterdir()
    moment = read(box).moment
    device = moment.devices[0]
    traced = [groups_traced(step.bytes_by_kind(event)) for event in same_moments(step, device)]
    looked = groups_looked(moment)
    slack = {name: 0 if name in EXACT else SLACK * device.statistics.allocated_bytes for name in looked}
    differences = [{name: size - looked[name] for name, size in one.items()} for one in traced]
    assert any(all(abs(size) <= slack[name] for name, size in one.items()) for one in differences), differences
