"""The owners in an inventory, checked against what a real training program knows about its own tensors."""

import re
from types import ModuleType, SimpleNamespace

import pytest

from gputui.probe.inventory.inventory import take_inventory
from gputui.probe.objects.kinds import ATOM, MODULE, TENSOR, TypeClassifier, forget_passing_classes
from tests.scale import SCALE, scaled

pytestmark = pytest.mark.every_torch

BY_DAY = ["gpt,adamw,backward", "gpt,sgd,checkpoint,amp", "resnet,adamw,amp"]
CASES = BY_DAY if SCALE == 1 else [*BY_DAY, "gpt,sgd,amp", "gpt,adamw,checkpoint", "resnet,sgd"]
VARIANTS = ("recorded", "plain")
LOOKS = scaled(16, 40)
AT_MOST_UNATTRIBUTED = 0.01
AT_MOST_IN_AN_OPERATION = 0.02
"""A look inside an operation (in a hook that it calls) cannot find the result, which no Python object holds yet."""


@pytest.fixture(scope="session")
def trained(run_once):
    return run_once("training.py", *CASES)


@pytest.mark.parametrize("case", [f"{case},{variant}" for case in CASES for variant in VARIANTS])
class TestTraining:
    def test_nearly_every_allocated_byte_has_an_owner(self, trained, case):
        for moment in outside_backward(trained["cases"][case]):
            workspaces = moment["workspace_bytes"]
            assert moment["unattributed_bytes"] <= AT_MOST_UNATTRIBUTED * (moment["total_bytes"] - workspaces), moment

    def test_no_owner_is_wrong(self, trained, case):
        for moment in outside_backward(trained["cases"][case]):
            assert moment["wrong"] == [], moment["moment"]
            assert moment["problems"] == [], moment["moment"]

    def test_no_storage_lies_outside_the_live_blocks(self, trained, case):
        for moment in trained["cases"][case]["moments"]:
            assert moment["dead"] == [], moment["moment"]

    def test_every_storage_has_a_name(self, trained, case):
        for moment in trained["cases"][case]["moments"]:
            assert moment["unnamed_bytes"] == 0, moment["moment"]


@pytest.mark.parametrize("case", CASES)
class TestLooksInTurn:
    """A look takes from the last ones what these have found, where it is still there."""

    def test_their_owners_are_those_that_the_program_knows(self, trained, case):
        result = trained["cases"][f"{case},in turn"]
        moments = [moment for moment in result["moments"] if moment["moment"] != "in backward"]
        for moment in moments:
            assert moment["wrong"] == moment["dead"] == moment["problems"] == [], moment["moment"]
            unnamed_bytes = moment["unattributed_bytes"] + moment["unnamed_bytes"]
            assert unnamed_bytes <= AT_MOST_UNATTRIBUTED * (moment["total_bytes"] - moment["workspace_bytes"]), moment

    def test_the_names_are_those_of_a_look_by_itself(self, trained, case):
        in_turn, plain = (trained["cases"][f"{case},{variant}"]["names"] for variant in ("in turn", "plain"))
        assert without_lines(in_turn) == without_lines(plain)


@pytest.mark.parametrize("case", CASES)
def test_the_graph_gives_the_same_categories_as_hooks_on_every_saved_tensor(trained, case):
    recorded, plain = (trained["cases"][f"{case},{variant}"]["moments"] for variant in VARIANTS)
    assert [moment["by_category"] for moment in plain] == [moment["by_category"] for moment in recorded]


def test_names_are_those_a_person_would_write(trained):
    names = trained["cases"]["gpt,adamw,backward,plain"]["names"]
    assert "model.layers.0.attention.qkv.weight" in names
    assert "model.layers.0.attention.qkv.weight.grad" in names
    assert "optimizer.state[model.layers.0.attention.qkv.weight].exp_avg" in names
    assert any(name.startswith("outputs (training.py:") and name.endswith(" in train)") for name in names)


def test_most_allocated_bytes_in_backward_have_an_owner(trained):
    """Gradients inside the autograd engine have no Python object."""
    moments = [m for m in trained["cases"]["gpt,adamw,backward,plain"]["moments"] if m["moment"] == "in backward"]
    assert len(moments) == 2
    for moment in moments:
        assert moment["unattributed_bytes"] <= 0.1 * (moment["total_bytes"] - moment["workspace_bytes"])
        assert moment["problems"] == []


def test_a_look_at_any_moment_explains_nearly_every_byte(run_program):
    for name, looks in run_program("random_moments.py", str(LOOKS)).items():
        assert len(looks) >= LOOKS
        at_the_top = max(look["allocated_bytes"] for look in looks)  # the first step begins with a third of it
        assert max(look["bytes"] for look in looks) <= AT_MOST_IN_AN_OPERATION * at_the_top, name
        assert [look["dead"] for look in looks if look["dead"]] == []
        assert [look["problems"] for look in looks if look["problems"]] == []


def test_a_partly_imported_torch_is_left_alone():
    inventory = take_inventory(ModuleType("torch"))
    assert inventory["storages"] == []
    assert inventory["problems"] == ["PyTorch is still being imported."]


def test_types_are_told_apart_after_a_look_that_came_too_early():
    class Tensor:
        """Stands for PyTorch's."""

    parts = {
        "nn": SimpleNamespace(Module=type("Module", (), {})),
        "optim": SimpleNamespace(Optimizer=type("O", (), {})),
    }
    torch = SimpleNamespace(Tensor=Tensor, _C=SimpleNamespace(_autograd=SimpleNamespace()), nn=None, optim=None)
    with pytest.raises(AttributeError):
        TypeClassifier(torch)
    vars(torch).update(parts)
    assert TypeClassifier(torch).kinds_of([Tensor(), parts["nn"].Module(), 1]) == [TENSOR, MODULE, ATOM]
    forget_passing_classes()


def without_lines(names):
    """The owners without the line of their function, which the probe replaces by that of the assignment."""
    return sorted(re.sub(r":\d+ in ", " in ", name) for name in names)


def outside_backward(result):
    moments = [moment for moment in result["moments"] if moment["moment"] != "in backward"]
    assert len(moments) == 11
    return moments
