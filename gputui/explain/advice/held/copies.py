"""Copies of a model's weights: a second model, or a dictionary or list of tensors such as a checkpoint or averages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import KEPT_SHARE, PART_BYTES
from gputui.explain.owners.names import family
from gputui.model.attached.analysis import Finding
from gputui.model.attached.owners import Keeper, root_of
from gputui.model.attached.tensors import OF_MODULES, OF_VARIABLES, WEIGHTS, Category, Storage
from gputui.model.weight import Weight
from gputui.units import format_bytes

Shapes = Counter[tuple[int, ...]]

AVERAGES = "Keep the averages in host memory (.cpu()), update them there, and move them to the device only to evaluate."
MASTERS = (
    "If it is the weights in another precision, torch.autocast needs no such copy: it casts them where they are used."
)
LOADED = (
    'Delete it once it has been loaded (del {}), or load it with map_location="cpu"; weights that are kept for later'
    " belong in host memory (.cpu())."
)
OF_OPTIMIZERS = re.compile(r" in _(?:multi_tensor|single_tensor|fused)_\w+$")
"""Matches the place of locals in torch.optim's functions for a step, whose lists are gone when the step ends."""
OF_AVERAGES = re.compile(r"ema\b|ema_|shadow|averag", re.IGNORECASE)


def second_model(situation: Situation) -> Finding | None:
    """A model without gradients or optimizer states is a copy of the trained one: averaged weights, or a teacher."""
    layout = situation.device.layout
    if layout is None:
        return None
    models: dict[str, list[Storage]] = defaultdict(list)
    for storage in layout.storages:
        if storage.category in OF_MODULES and storage.keeper is Keeper.NONE:
            models[storage.owner.root].append(storage)
    trained = _trained(layout.storages)
    for name, storages in sorted(models.items(), key=lambda model: -_bytes(model[1])):
        size_bytes = _bytes(storages)
        if name in trained or size_bytes < max(PART_BYTES, KEPT_SHARE * layout.statistics.allocated_bytes):
            continue
        shapes = _of_parameters(storages)
        count = sum(shapes.values())
        twin = next((root for root in models if root in trained and _of_parameters(models[root]) == shapes), None)
        if twin is None:
            continue
        copy = _path_of(storages, models[twin], twin) or name
        return Finding(
            weight=Weight.ADVICE,
            title=f"{copy} is a second copy of {twin} on the device: {format_bytes(size_bytes)}.",
            evidence=(f"Its {count:,} parameters have the same shapes as {twin}'s, and no optimizer trains them.",),
            remedy=f"If it is an average of the weights (EMA), keep it in host memory ({copy}.cpu()), update it there,"
            " and move it to the device only to evaluate.",
            bytes=size_bytes,
            screen="tensors",
            addresses=tuple(storage.address for storage in sorted(storages, key=lambda s: -s.size_bytes)),
            owners=(copy,),
        )
    return None


def _path_of(storages: Sequence[Storage], twins: Sequence[Storage], twin: str) -> str:
    """The path of the copy, `stopping.best`: what its parameters' names have in front of those of the twin `model`."""
    names = [storage.owner.path for storage in storages]
    parts = {storage.owner.path.removeprefix(f"{twin}.") for storage in twins}
    paths = {names[0].removesuffix(f".{part}") for part in parts} - {names[0]}
    common = [path for path in paths if all(name.startswith(f"{path}.") for name in names)]
    return max(common, key=len, default="")


def weight_copy(situation: Situation) -> Finding | None:
    """The largest dictionary or list whose tensors have the shapes of a model's parameters."""
    layout = situation.device.layout
    if layout is None:
        return None
    models, buffers = _by_model(layout.storages, WEIGHTS), _by_model(layout.storages, (Category.BUFFER,))
    copies = _collections(layout.storages) if models else {}
    least_bytes = max(PART_BYTES, KEPT_SHARE * layout.statistics.allocated_bytes)
    for name, storages in sorted(copies.items(), key=lambda copy: -_bytes(copy[1])):
        if _bytes(storages) < least_bytes:
            return None
        if OF_OPTIMIZERS.search(storages[0].owner.place) or _comes_and_goes(situation, name, storages):
            continue
        for model, parameters in models.items():
            count = _copies(_shapes(storages), _shapes(parameters), _shapes(buffers.get(model, ())))
            if count and _is_surely(storages, parameters):
                return _finding(name, model, count, storages, parameters, _assigned_at(situation, name))
    return None


def _comes_and_goes(situation: Situation, name: str, storages: Sequence[Storage]) -> bool:
    """Whether a complete look lacks the collection that an earlier one had, and its tensors: steps make and free it."""
    places = {(storage.address, storage.shape) for storage in storages}
    was_there = False
    for look in situation.looks:
        if name in _collections(look.layout.storages):
            was_there = True
        elif was_there and look.is_complete:
            return not places & {(storage.address, storage.shape) for storage in look.layout.storages}
    return False


def _assigned_at(situation: Situation, name: str) -> str:
    """The line that made or filled the collection; "" if it is not known."""
    return next((container.grown_at for container in situation.moment.containers if family(container.name) == name), "")


def _finding(
    name: str, model: str, count: int, storages: Sequence[Storage], parameters: Sequence[Storage], made_at: str
) -> Finding:
    line, variable = storages[0].owner.place, name.partition("[")[0]
    what = "a copy" if count == 1 else f"{count} copies"
    dtypes = {storage.dtype for storage in storages} - {parameter.dtype for parameter in parameters}
    precision = f" in {next(iter(dtypes))}" if len(dtypes) == 1 else ""
    remedy = MASTERS if precision else LOADED.format(variable)
    copy = f"{name}[*]{f' ({line})' if line else ''}"
    size = f"{format_bytes(_bytes(storages))}{f' ({made_at})' if made_at and not line else ''}"
    alike = f"Its {len(storages):,} tensors have the shapes of the {len(parameters):,} parameters of {model}."
    return Finding(
        weight=Weight.ADVICE,
        title=f"{copy} holds {what} of the weights of {model}{precision}: {size}.",
        evidence=(alike,),
        remedy=AVERAGES if OF_AVERAGES.search(name) else remedy,
        bytes=_bytes(storages),
        screen="tensors",
        addresses=tuple(storage.address for storage in sorted(storages, key=lambda s: -s.size_bytes)),
        owners=(variable,),
    )


def _by_model(storages: Sequence[Storage], categories: Sequence[Category]) -> dict[str, list[Storage]]:
    models: dict[str, list[Storage]] = defaultdict(list)
    for storage in storages:
        if storage.category in categories and storage.keeper is Keeper.NONE:
            models[storage.owner.root].append(storage)
    return models


def _collections(storages: Sequence[Storage]) -> dict[str, list[Storage]]:
    """The tensors that are entries of a dictionary or list and belong to no model, by the name of that collection."""
    found: dict[str, list[Storage]] = defaultdict(list)
    for storage in storages:
        is_held = storage.category in OF_VARIABLES and storage.keeper is Keeper.NONE and not storage.saved_by
        collection, _ = storage.owner.entry
        if is_held and collection:
            found[family(collection)].append(storage)
    return found


def _copies(found: Shapes, of_model: Shapes, of_buffers: Shapes) -> int:
    """How many copies of a model's parameters these shapes are, with or without buffers; 0 with any other shape."""
    count = min(found[shape] // number for shape, number in of_model.items())
    rest = found - Counter({shape: count * number for shape, number in of_model.items()})
    return count if all(number <= count * of_buffers[shape] for shape, number in rest.items()) else 0


def _is_surely(storages: Sequence[Storage], parameters: Sequence[Storage]) -> bool:
    """Whether the first key is the name of a parameter, or several shapes are alike, which is hardly chance."""
    names = (parameter.owner.path for parameter in parameters)
    key = storages[0].owner.entry[1].strip("'\"")
    are_names = any(name == key or name.endswith(f".{key}") for name in names)
    return are_names or len(_shapes(parameters)) > 1


def _trained(storages: tuple[Storage, ...]) -> set[str]:
    """The variables of the models that have gradients or optimizer states."""
    roots = {s.owner.root for s in storages if s.category is Category.GRADIENT}
    states = (s.owner.state for s in storages if s.category is Category.OPTIMIZER_STATE)
    return roots | {root_of(state.parameter) for state in states}


def _of_parameters(storages: Sequence[Storage]) -> Shapes:
    return _shapes([storage for storage in storages if storage.category in WEIGHTS])


def _bytes(storages: Sequence[Storage]) -> int:
    return sum(storage.size_bytes for storage in storages)


def _shapes(storages: Sequence[Storage]) -> Shapes:
    return Counter(storage.shape for storage in storages)
