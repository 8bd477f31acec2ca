"""Names for tensors that no variable leads to: by the objects that refer to them."""

from __future__ import annotations

import gc
from types import CellType, FrameType
from typing import Any

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.plain import class_name, is_one_of, type_name
from gputui.probe.objects.torch_types import AnyObject, Tensor

TENSORS_AT_MOST = 64
"""Only the first (largest) tensors are named: each reference of every object is compared with each of them."""


def name_by_referrers(tensors: list[Tensor], own: set[int], attributes: AttributeReader) -> dict[int, str]:
    """Names by the id of the tensor: `Cache.key`, `['key'] of a dict`. `own` are the ids of the caller's containers."""
    nameless = {id(tensor): tensor for tensor in tensors[:TENSORS_AT_MOST]}
    if not nameless:
        return {}
    referrers = gc.get_referrers(*nameless.values())
    referrers = [referrer for referrer in referrers if id(referrer) not in own and referrer is not nameless]
    names: dict[int, str] = {}
    for referrer in referrers:
        for ident, name in _names_in(referrer, nameless, attributes):
            names.setdefault(ident, name)
    names.update(_names_by_attribute(referrers, nameless, attributes))
    return names


def _names_by_attribute(
    referrers: list[AnyObject], nameless: dict[int, Tensor], attributes: AttributeReader
) -> dict[int, str]:
    """Names by the objects whose `__dict__` is among the referrers."""
    dicts = {id(referrer): referrer for referrer in referrers if type(referrer) is dict}
    names = {}
    for owner in gc.get_referrers(*dicts.values()) if dicts else ():
        own_dict = attributes.own_dict(owner)
        if own_dict is not None and id(own_dict) in dicts:
            names.update(_items(own_dict, nameless, f"{type_name(owner)}."))
    return names


def _names_in(referrer: AnyObject, nameless: dict[int, Tensor], attributes: AttributeReader) -> list[tuple[int, str]]:
    cls = type(referrer)
    if is_one_of(cls, (FrameType, CellType)):  # variables, which were searched before
        return []
    if cls is dict:
        return [(ident, f"[{key!r}] of a dict") for ident, key in _items(referrer, nameless, "").items()]
    if is_one_of(cls, (list, tuple, set, frozenset)):
        elements = [element for element in list(referrer) if id(element) in nameless]
        return [(id(element), f"a tensor in a {cls.__name__} of {len(referrer)}") for element in elements]
    names = _items(attributes.read(referrer), nameless, f"{class_name(cls)}.")
    if names:
        return list(names.items())
    return [
        (id(held), f"a tensor held by {class_name(cls)}") for held in gc.get_referents(referrer) if id(held) in nameless
    ]


def _items(mapping: dict[Any, Any], nameless: dict[int, Tensor], prefix: str) -> dict[int, str]:
    held = [(id(value), key) for key, value in list(mapping.items()) if id(value) in nameless]
    return {ident: f"{prefix}{key}" for ident, key in held if is_one_of(type(key), (str, int))}
