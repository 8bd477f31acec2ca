"""The parts of an owner's name: path, place and exception, and what a path says of optimizers and outputs."""

from __future__ import annotations

import pytest

from gputui.explain.owners.labels import Label, State, label_of


@pytest.mark.parametrize(
    ("name", "label", "function"),
    [
        ("model.0.weight", Label("model.0.weight"), ("", "")),
        ("loss (train.py:12, 98)", Label("loss", "train.py:12, 98"), ("", "")),
        ("losses[3] (train.py:23 in step)", Label("losses[3]", "train.py:23 in step"), ("train.py", "step")),
        ("h (last exception, a.py:5 in f)", Label("h", "a.py:5 in f", "last exception"), ("a.py", "f")),
        (
            "h (exception of cell 12, cell 7:5 in f)",
            Label("h", "cell 7:5 in f", "exception of cell 12"),
            ("cell 7", "f"),
        ),
        (
            "h (exception errors['a: 1'], a.py:5 in f)",
            Label("h", "a.py:5 in f", "exception errors['a: 1']"),
            ("a.py", "f"),
        ),
        ("h (last exception)", Label("h", "", "last exception"), ("", "")),
        ("h (exception.py:5 in f)", Label("h", "exception.py:5 in f"), ("exception.py", "f")),
    ],
)
def test_a_name_is_a_path_with_its_line_and_with_the_exception_that_keeps_it(name, label, function) -> None:
    assert label_of(name) == label
    assert label_of(name).function == function


def test_the_holder_of_an_exception_is_its_variable() -> None:
    assert label_of("h (exception errors[3], a.py:5 in f)").holder == "errors[3]"
    assert label_of("h (last exception, a.py:5 in f)").holder == ""


@pytest.mark.parametrize(
    ("path", "root"),
    [("model.fc.weight", "model"), ("self.model.fc.weight", "self.model"), ("models[0].fc.weight", "models[0]")],
)
def test_the_root_is_the_variable_of_the_model(path: str, root: str) -> None:
    assert label_of(path).root == root


def test_the_state_of_an_optimizer_names_optimizer_parameter_and_state() -> None:
    assert label_of("self.opt.state[model.fc.weight].exp_avg").state == State("self.opt", "model.fc.weight", "exp_avg")
    assert label_of("opt.param_groups[0]['params'][3]").state.optimizer == "opt"
    assert label_of("model.fc.weight").state == State()


def test_an_entry_has_its_collection_and_its_key() -> None:
    assert label_of("ema['fc.weight'] (a.py:3)").entry == ("ema", "'fc.weight'")
    assert label_of("ema").entry == ("", "")


@pytest.mark.parametrize(("path", "output"), [("Out[7][0]", ("Out[7]", "7")), ("_", ("_", "")), ("x", ("", ""))])
def test_an_output_has_the_name_that_the_prompt_gives_it(path: str, output: tuple[str, str]) -> None:
    assert label_of(path).output == output
