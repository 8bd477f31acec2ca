"""A second model of the same shape beside the one that is trained."""

from __future__ import annotations

from collections import defaultdict

from gputui.explain.advice.holders import root_of
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import KEPT_SHARE, PART_BYTES
from gputui.model.finding import Finding, Weight
from gputui.model.tensors import Category, Keeper, Storage
from gputui.units import format_bytes


def second_model(situation: Situation) -> Finding | None:
    """A copy of the trained model without gradients or optimizer states: an average of its weights, or a teacher."""
    layout = situation.device.layout
    if layout is None:
        return None
    models: dict[str, list[Storage]] = defaultdict(list)
    for storage in layout.storages:
        if storage.category in (Category.PARAMETER, Category.BUFFER) and storage.keeper is Keeper.NONE:
            models[root_of(storage.owner)].append(storage)
    trained = _trained(layout.storages)
    for name, storages in sorted(models.items(), key=lambda model: -_bytes(model[1])):
        size_bytes = _bytes(storages)
        if name in trained or size_bytes < max(PART_BYTES, KEPT_SHARE * layout.statistics.allocated_bytes):
            continue
        shapes = _shapes(storages)
        twin = next((root for root in models if root in trained and _shapes(models[root]) == shapes), None)
        if twin is None:
            continue
        return Finding(
            kind="second_model",
            weight=Weight.ADVICE,
            title=f"{name} is a second copy of {twin} on the device: {format_bytes(size_bytes)}.",
            evidence=(
                f"Its {len(shapes):,} parameters have the same shapes as {twin}'s, and no optimizer trains them.",
            ),
            remedy=f"If it is an average of the weights (EMA), keep it in host memory ({name}.cpu()), update it there,"
            " and move it to the device only to evaluate.",
            bytes=size_bytes,
            screen="tensors",
            addresses=tuple(storage.address for storage in sorted(storages, key=lambda s: -s.size_bytes)),
            owners=(name,),
        )
    return None


def _bytes(storages: list[Storage]) -> int:
    return sum(storage.size_bytes for storage in storages)


def _shapes(storages: list[Storage]) -> list[tuple[int, ...]]:
    return sorted(storage.shape for storage in storages if storage.category is Category.PARAMETER)


def _trained(storages: tuple[Storage, ...]) -> set[str]:
    """The variables of models that have gradients or optimizer states."""
    roots = {root_of(s.owner) for s in storages if s.category is Category.GRADIENT}
    states = (s.owner.partition("[")[2] for s in storages if s.category is Category.OPTIMIZER_STATE)
    return roots | {root_of(name) for name in states}
