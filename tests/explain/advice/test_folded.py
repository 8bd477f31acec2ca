"""Holders that differ only in numbers or keys are one; a list of models is the holder of their parts."""

from __future__ import annotations

import pytest

from gputui.explain.advice.held.folded import folded
from gputui.explain.advice.held.holders import holders_of
from gputui.model.attached.tensors import Category
from gputui.units import MIB
from tests.explain.moments import Tensor, containers_of, moment, row

X, P, S = Category.OTHER, Category.PARAMETER, Category.OPTIMIZER_STATE
LAYERS = [
    Tensor(2, f"net.layers.{layer}.seen[{step}] (hooks.py:9 in keep)", X) for layer in range(4) for step in (0, 1)
]
TWO_PLACES = [Tensor(2, "net.0.seen[0] (a.py:1 in f)", X), Tensor(2, "net.1.seen[0] (b.py:2 in g)", X)]
OPTIMIZERS = [Tensor(4, f"runs.{run}.optimizer.state[weight].exp_avg", S) for run in range(3)]
MODELS = [
    *(Tensor(2, f"folds[{fold}].net.weight (cv.py:7 in run)", P) for fold in range(3)),
    *(Tensor(4, f"folds[{fold}].opt.state[weight].exp_avg (cv.py:7 in run)", S) for fold in range(3)),
]
PAIR = [Tensor(2, f"models[{number}].weight (gan.py:7 in run)", P) for number in range(2)]
CASES = {
    "what each layer keeps": (LAYERS, "net.layers.*.seen (hooks.py:9 in keep)", 16, "4 places, 8 elements"),
    "lines that differ": (TWO_PLACES, "net.*.seen", 4, "2 places, 2 elements"),
    "an optimizer for each run": (OPTIMIZERS, "the states of runs.*.optimizer", 12, "3 places of up to 4.0 MiB"),
    "models in a list": (MODELS, "folds (cv.py:7 in run)", 18, "3 elements"),
    "a pair of models": (PAIR, "the parameters of models[*]", 4, "2 places of up to 2.0 MiB"),
}


@pytest.mark.parametrize(("tensors", "label", "mib", "keeps"), CASES.values(), ids=CASES)
def test_alike_holders_are_one(tensors, label, mib, keeps):
    made, storages = row(*tensors)
    (device,) = moment((made, storages)).devices
    (holder,) = folded(holders_of(device.layout, containers_of(storages)))
    assert (holder.label, holder.bytes, holder.keeps) == (label, mib * MIB, keeps)
    assert len(holder.addresses) == len(tensors)


def test_holders_with_names_of_their_own_stay_apart():
    made, storages = row(Tensor(2, "seen[0]", X), Tensor(3, "rows[0]", X), Tensor(4, "model.weight", P))
    (device,) = moment((made, storages)).devices
    holders = folded(holders_of(device.layout, containers_of(storages)))
    assert [holder.name for holder in holders] == ["the parameters of model", "rows", "seen"]
