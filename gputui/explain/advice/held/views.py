"""Small views that keep large storages, as one row of a matrix keeps the whole matrix."""

from __future__ import annotations

from collections import defaultdict

from gputui.explain.advice.held.holders import variable_of
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import KEPT_SHARE, PART_BYTES
from gputui.explain.owners.names import counted, singular
from gputui.model.attached.analysis import Finding
from gputui.model.attached.owners import Keeper
from gputui.model.attached.tensors import COMES_AND_GOES, Category, Storage
from gputui.model.weight import Weight
from gputui.units import format_bytes


def small_views(situation: Situation) -> Finding | None:
    """A variable keeps large storages through tensors that show a small part of them.

    If looks have not searched all, a tensor that they have not found may show the rest, as of a buffer of which a
    function gets a slice. So only containers count then.
    """
    layout = situation.device.layout
    if layout is None:
        return None
    by_name = {container.name: container for container in situation.moment.containers}
    variables: dict[str, list[Storage]] = defaultdict(list)
    for storage in layout.storages:
        is_of_variable = storage.category in COMES_AND_GOES and storage.keeper is Keeper.NONE and not storage.saved_by
        if storage.views and storage.owner and is_of_variable:
            name = variable_of(storage.owner, by_name)
            if layout.is_searched or name in by_name:
                variables[name].append(storage)
    if not variables:
        return None
    name, storages = max(variables.items(), key=lambda variable: (_hidden_bytes(variable[1]), variable[0]))
    hidden_bytes = _hidden_bytes(storages)
    if hidden_bytes < max(PART_BYTES, KEPT_SHARE * layout.statistics.allocated_bytes):
        return None
    container = by_name.get(name)
    line = (container.grown_at or container.where) if container else storages[0].owner.place
    kept_bytes = sum(storage.size_bytes for storage in storages)
    element = singular(name) if container else name
    has_graph = any(storage.category is Category.ACTIVATION for storage in storages)
    copy = f"{element}{'.detach()' if has_graph else ''}.clone()"
    return Finding(
        weight=Weight.ADVICE,
        title=f"{name}{f' ({line})' if line else ''} keeps {format_bytes(kept_bytes)} through views of"
        f" {format_bytes(kept_bytes - hidden_bytes)}.",
        evidence=(
            f"{counted(len(storages), 'storage')} on the device stay whole as long as a tensor shows a part of them.",
        ),
        remedy=f"Keep {copy} instead of {element}: that would free {format_bytes(hidden_bytes)}.",
        bytes=hidden_bytes,
        screen="tensors",
        addresses=tuple(storage.address for storage in sorted(storages, key=lambda s: -s.size_bytes)),
        owners=(name,),
    )


def _hidden_bytes(storages: list[Storage]) -> int:
    return sum(storage.hidden_bytes for storage in storages)
