"""Names for tensors that no variable leads to: by what refers to them. One question asks every object there is."""

from __future__ import annotations

import gc
from types import CellType, FrameType
from typing import Any

from gputui.probe.attributes import AttributeReader
from gputui.probe.torch_types import AnyObject, Tensor

TENSORS_AT_MOST = 64
"""Each object's references are compared with each of these, so that the largest tensors have to do."""


def name_by_referrers(tensors: list[Tensor], own: set[int], attributes: AttributeReader) -> dict[int, str]:
    """Names by the id of the tensor: `Cache.key`, `['key'] of a dict`. `own` are the ids of the caller's containers."""
    asked = {id(tensor): tensor for tensor in tensors[:TENSORS_AT_MOST]}
    if not asked:
        return {}
    holders = [holder for holder in gc.get_referrers(*asked.values()) if id(holder) not in own and holder is not asked]
    names: dict[int, str] = {}
    for holder in holders:
        for ident, name in _names_in(holder, asked, attributes):
            names.setdefault(ident, name)
    names.update(_names_by_attribute(holders, asked, attributes))
    return names


def _names_by_attribute(
    holders: list[AnyObject], asked: dict[int, Tensor], attributes: AttributeReader
) -> dict[int, str]:
    """Names by the objects whose `__dict__` is among the holders."""
    dicts = {id(holder): holder for holder in holders if type(holder) is dict}
    names = {}
    for thing in gc.get_referrers(*dicts.values()) if dicts else ():
        held = attributes.own_dict(thing)
        if held is not None and id(held) in dicts:
            names.update(_items(held, asked, f"{type(thing).__name__}."))
    return names


def _names_in(holder: AnyObject, asked: dict[int, Tensor], attributes: AttributeReader) -> list[tuple[int, str]]:
    kind = type(holder)
    if kind in (FrameType, CellType):  # variables: looked at already, by name
        return []
    if kind is dict:
        return [(ident, f"[{key!r}] of a dict") for ident, key in _items(holder, asked, "").items()]
    if kind in (list, tuple, set, frozenset):
        return [(id(held), f"in a {kind.__name__} of {len(holder)}") for held in list(holder) if id(held) in asked]
    named = _items(attributes.read(holder), asked, f"{kind.__name__}.")
    if named:
        return list(named.items())
    return [(id(held), f"held by {kind.__name__}") for held in gc.get_referents(holder) if id(held) in asked]


def _items(held: dict[Any, Any], asked: dict[int, Tensor], prefix: str) -> dict[int, str]:
    return {id(v): f"{prefix}{k}" for k, v in list(held.items()) if id(v) in asked and type(k) in (str, int)}
