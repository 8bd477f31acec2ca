"""Many names in few words: members of one list, or of one stack of layers, are named together."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 3
"""How many names a sentence lists; the rest is counted."""

_INDEX = re.compile(r"\[\d+\]")
_LAYER = re.compile(r"\.\d+(?=\.|\]|$)")
_PLACE = re.compile(r" \([^()]*\)$")


def family(name: str) -> str:
    """`losses[3] (train.py:23 in step)` and `losses[4] (...)` are `losses[*]`; `model.0.bias` is `model.*.bias`."""
    return _LAYER.sub(".*", _INDEX.sub("[*]", _PLACE.sub("", name)))


def singular(name: str) -> str:
    """What a program may call one element of `self.val_losses`: `val_loss`; `tensor` where the name has no plural."""
    last = name.rpartition(".")[2].partition("[")[0]
    if last.endswith(("sses", "xes", "ches")):
        return last[:-2]
    return last[:-1] if last.endswith("s") and not last.endswith("ss") and len(last) > 2 else "tensor"


def place(name: str) -> str:
    """`train.py:23 in step` for `losses[3] (train.py:23 in step)`; "" for a name without a place."""
    note = _PLACE.search(name)
    return note[0][2:-1] if note else ""


def listed(names: Iterable[str]) -> str:
    """ "a, b and c", or "a, b, c and 4 more"."""
    all_names = list(dict.fromkeys(names))
    shown = all_names[:MOST] + ([f"{len(all_names) - MOST} more"] if len(all_names) > MOST else [])
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def counted(count: int, noun: str) -> str:
    """ "1 segment", "2 segments"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
