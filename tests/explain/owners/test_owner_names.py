"""The parts of an owner's name: path, place and exception, and what a path says of optimizers and outputs."""

from __future__ import annotations

import pytest

from gputui.model.attached.owners import OwnerName, State
from gputui.model.decode import DecodeError, decode
from gputui.model.earlier_owners import owner_of_text

# what the probe sends: the text
TEXTS = {
    "a variable of a module": (["model.fc.weight"], "model.fc.weight"),
    "a local variable": (["losses[3]", "train.py:23 in step"], "losses[3] (train.py:23 in step)"),
    "a state": (["opt", "", "state", "fc.weight", ".exp_avg"], "opt.state[fc.weight].exp_avg"),
    "a state of a local optimizer": (
        ["opt", "a.py:2 in f", "state", "fc.weight", ".exp_avg"],
        "opt.state[fc.weight].exp_avg (a.py:2 in f)",
    ),
    "a parameter group": (["opt", "", "param_group", "", ".param_groups[0]['lr']"], "opt.param_groups[0]['lr']"),
    "an argument": (["mat1", "", "argument", "AddmmBackward0"], "mat1 of AddmmBackward0"),
    "a result": (["AddBackward0", "", "result"], "result of AddBackward0"),
    "a copy": (["fc.weight", "", "copy", "bfloat16"], "fc.weight (bfloat16 copy)"),
    "without a variable": (["Tensor", "", "unnamed"], "unnamed Tensor"),
    "a local of an exception": (
        ["h", "a.py:5 in f", "", "", "", "held", "errors[3]"],
        "h (exception errors[3], a.py:5 in f)",
    ),
    "of a cell": (["h", "cell 7:5 in f", "", "", "", "of_cell", "cell 7"], "h (exception of cell 7, cell 7:5 in f)"),
    "of the last exception": (["h", "a.py:5 in f", "", "", "", "last"], "h (last exception, a.py:5 in f)"),
    "of a handled one": (
        ["h", "a.py:5 in f", "", "", "", "handled"],
        "h (exception being handled, a.py:5 in f)",
    ),
    "an attribute of an exception": (["args[0]", "", "", "", "", "last"], "args[0] (last exception)"),
}
FACTS = ("start", "place", "kind", "of", "part", "exception", "holder", "path", "where")


@pytest.mark.parametrize(("facts", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_what_the_probe_sends_is_written_as_text_and_earlier_text_is_read(facts: list[str], text: str) -> None:
    owner, earlier = decode(OwnerName, facts), decode(OwnerName, text)
    assert owner == text == earlier
    assert [getattr(owner, fact) for fact in FACTS] == [getattr(earlier, fact) for fact in FACTS]


@pytest.mark.parametrize("facts", [["x", "", "no kind"], ["x", "", "", "", "", "no exception"], ["x"] * 8, [1], None])
def test_facts_that_are_none_are_refused(facts: object) -> None:
    with pytest.raises(DecodeError):
        decode(OwnerName, facts)


@pytest.mark.parametrize(
    ("name", "facts", "function"),
    [
        ("model.0.weight", ("model.0.weight", "", ""), ("", "")),
        ("loss (train.py:12, 98)", ("loss", "train.py:12, 98", ""), ("", "")),
        ("losses[3] (train.py:23 in step)", ("losses[3]", "train.py:23 in step", ""), ("train.py", "step")),
        ("h (last exception, a.py:5 in f)", ("h", "a.py:5 in f", "last exception"), ("a.py", "f")),
        (
            "h (exception of cell 12, cell 7:5 in f)",
            ("h", "cell 7:5 in f", "exception of cell 12"),
            ("cell 7", "f"),
        ),
        (
            "h (exception errors['a: 1'], a.py:5 in f)",
            ("h", "a.py:5 in f", "exception errors['a: 1']"),
            ("a.py", "f"),
        ),
        ("h (last exception)", ("h", "", "last exception"), ("", "")),
        ("h (exception.py:5 in f)", ("h", "exception.py:5 in f", ""), ("exception.py", "f")),
    ],
)
def test_a_name_is_a_path_with_its_line_and_with_the_exception_that_keeps_it(name, facts, function) -> None:
    owner = owner_of_text(name)
    assert (owner.path, owner.place, owner.exception) == facts
    assert owner.function == function
    assert owner == name


def test_the_holder_of_an_exception_is_its_variable() -> None:
    assert owner_of_text("h (exception errors[3], a.py:5 in f)").holder == "errors[3]"
    assert owner_of_text("h (last exception, a.py:5 in f)").holder == ""


@pytest.mark.parametrize(
    ("path", "root"),
    [("model.fc.weight", "model"), ("self.model.fc.weight", "self.model"), ("models[0].fc.weight", "models[0]")],
)
def test_the_root_is_the_variable_of_the_model(path: str, root: str) -> None:
    assert owner_of_text(path).root == root


def test_the_state_of_an_optimizer_names_optimizer_parameter_and_state() -> None:
    assert owner_of_text("self.opt.state[model.fc.weight].exp_avg").state == State(
        "self.opt", "model.fc.weight", "exp_avg"
    )
    assert owner_of_text("opt.param_groups[0].params[3]").state.optimizer == "opt"
    assert owner_of_text("model.fc.weight").state == State()


def test_an_entry_has_its_collection_and_its_key() -> None:
    assert owner_of_text("ema['fc.weight'] (a.py:3)").entry == ("ema", "'fc.weight'")
    assert owner_of_text("ema").entry == ("", "")


@pytest.mark.parametrize(("path", "output"), [("Out[7][0]", ("Out[7]", "7")), ("_", ("_", "")), ("x", ("", ""))])
def test_an_output_has_the_name_that_the_prompt_gives_it(path: str, output: tuple[str, str]) -> None:
    assert owner_of_text(path).output == output
