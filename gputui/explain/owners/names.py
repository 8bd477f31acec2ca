"""Puts many names into few words: members of one list, or of one stack of layers, share a name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from gputui.model.attached.analysis import Owner
from gputui.model.attached.owners import OwnerName
from gputui.model.attached.tensors import Category

MOST = 3
"""How many names a sentence lists; the rest is counted."""

_INDEX = re.compile(r"\[\d+\]")
_LAYER = re.compile(r"\.\d+(?=\.|\]|$)")
_KEY = re.compile(r"\[(?:'[^']*'|\"[^\"]*\"|\*)\]")
_ATTRIBUTE = re.compile(r"(?<=\.)[^\W\d]\w*$")
ALIKE = 3
"""From this many on, the keys of one dictionary, or the attributes of one object, share a name."""
_STEPS = re.compile(r"\['(\w+)'\]|\[[^\]]*\]|([^\W\d]\w*)")
"""Matches the steps of a path: group 1 is a key that is a word, group 2 a name; other keys have neither."""
_SINGULARS = {
    "aches": "ache",
    "sses": "ss",
    "biases": "bias",
    "xes": "x",
    "ches": "ch",
    "indices": "index",
    "matrices": "matrix",
    "ies": "y",
    "s": "",
}
"""The singular of each ending of a plural; of several that fit, the first counts."""
_NO_PLURALS = ("ss", "axis", "bias", "pos", "series", "status")

UNKNOWN = "blocks without a known owner"
NEWER = "blocks newer than the last look"


def name_of(owner: Owner) -> str:
    """The family of a block's owner, or its category in words if it has no name."""
    if owner.category is Category.NEWER:
        return NEWER
    if owner.category is Category.UNATTRIBUTED and not owner.name:
        return UNKNOWN
    return family(owner.name) if owner.name else f"{owner.category.words} without a name"


def family(name: str) -> str:
    """The name with `*` for numbers: `losses[*]` for `losses[3] (train.py:23)`, `model.*.bias` for `model.0.bias`."""
    return _LAYER.sub(".*", _INDEX.sub("[*]", name.path if isinstance(name, OwnerName) else name))


def patterns(names: Iterable[str], *, folds_attributes: bool = False) -> dict[str, str]:
    """The family of each name, with `[*]` for `ALIKE` keys of one dictionary and `*` for attributes of one object.

    `checkpoint['model']['0.weight']` and two others become `checkpoint['model'][*]`. The last keys are folded first.
    """
    found = {name: family(name) for name in names}
    deepest = max((len(_KEY.findall(name)) for name in found.values()), default=0)
    ways: list[Callable[[str], str]] = [partial(_without_key, number) for number in range(deepest)]
    for fold in [*ways, *([_without_attribute] if folds_attributes else [])]:
        alike: dict[str, set[str]] = defaultdict(set)
        for name in found.values():
            alike[fold(name)].add(name)
        found = {name: folded if len(alike[folded := fold(of)]) >= ALIKE else of for name, of in found.items()}
    return found


def _without_key(number: int, name: str) -> str:
    """The name without the key of this number, counted from the last one."""
    keys = list(_KEY.finditer(name))[::-1]
    return f"{name[: keys[number].start()]}[*]{name[keys[number].end() :]}" if number < len(keys) else name


def _without_attribute(name: str) -> str:
    return _ATTRIBUTE.sub("*", name)


def singular(name: str) -> str:
    """What a program may call one element of this variable: `val_loss` for `self.val_losses`.

    It is `pred` for `history['val']['preds']`, and `tensor` for a name without a plural.
    """
    for key, word in reversed(_STEPS.findall(name)):
        step: str = key or word
        plural = next(filter(step.endswith, _SINGULARS), "")
        if plural and len(step) > 2 and not step.endswith(_NO_PLURALS):
            return step.removesuffix(plural) + _SINGULARS[plural]
    return "tensor"


def listed(names: Iterable[str]) -> str:
    """ "a, b and c", or "a, b, c and 4 more"."""
    all_names = list(dict.fromkeys(names))
    shown = all_names[:MOST] + ([f"{len(all_names) - MOST} more"] if len(all_names) > MOST else [])
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def counted(count: int, noun: str) -> str:
    """ "1 segment", "2 segments"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def exceptions_words(names: Iterable[OwnerName]) -> str:
    """Which exceptions keep these locals: "the exception of cell 12", "12 exceptions in errors"; or ""."""
    holders = {name.exception: name for name in names}
    if len(holders) == 1:
        (exception,) = holders
        return f"the {exception}" if exception else ""
    lists = {name.collection_of_holder for name in holders.values()}
    return f"{counted(len(holders), 'exception')} in {lists.pop()}" if len(lists) == 1 and all(lists) else ""
