"""The difference between two JSON values that are mostly equal: new lists refer to items of old lists by position.

A patch is a JSON value: [VALUE, new], [KEYS, {key: patch}, [keys that are gone]], or [ITEMS, [part, ...]], where a part
is [first, end] of the old list or {"new": [items]}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

VALUE, KEYS, ITEMS = 0, 1, 2
ITEMS_AT_MOST = 4_000_000
"""The longest list that a patch may make: a few bytes could repeat the old list again and again."""


class PatchError(Exception):
    """A patch that does not fit the old value."""


def difference(old: object, new: object) -> list[Any]:
    """The patch that makes `old` into `new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {
            key: difference(old[key], value) if key in old else [VALUE, value]
            for key, value in new.items()
            if key not in old or not _is_same(old[key], value)
        }
        return [KEYS, changed, [key for key in old if key not in new]]
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return [ITEMS, _parts(old, new)]
    return [VALUE, new]


def patched(old: object, patch: object) -> Any:  # noqa: ANN401 - any JSON value
    """The value that a patch makes of `old`; raises PatchError."""
    try:
        kind, *rest = cast("list[Any]", patch)
        if kind == VALUE:
            return rest[0]
        if kind == KEYS:
            return _with_keys(cast("dict[str, Any]", old), *rest)
        if kind == ITEMS:
            return _joined(cast("list[Any]", old), rest[0])
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise PatchError(str(error)) from error
    raise PatchError("an unknown kind of patch")


def _with_keys(old: Mapping[str, Any], changed: Mapping[str, Any], gone: Sequence[str]) -> dict[str, Any]:
    kept = {key: value for key, value in old.items() if key not in gone}
    return kept | {key: patched(old.get(key), patch) for key, patch in changed.items()}


def _joined(old: list[Any], parts: list[Any]) -> list[Any]:
    items: list[Any] = []
    for part in parts:
        items += part["new"] if isinstance(part, dict) else old[part[0] : part[1]]
        if len(items) > ITEMS_AT_MOST:
            raise PatchError("a list that is too long")
    return items


def _parts(old: list[Any], new: list[Any]) -> list[Any]:
    """The new list as parts: runs of items of the old list, and new items."""
    texts = [_text(item) for item in old]
    places: dict[str, int] = {}
    for place in range(len(texts) - 1, -1, -1):
        places[texts[place]] = place
    parts: list[Any] = []
    end = 0  # where the current run would continue
    for item in new:
        text = _text(item)
        at = end if end < len(texts) and texts[end] == text else places.get(text)
        last = parts[-1] if parts else None
        if at is None:
            if isinstance(last, dict):
                last["new"].append(item)
            else:
                parts.append({"new": [item]})
        elif isinstance(last, list) and last[1] == at:
            last[1] = end = at + 1
        else:
            end = at + 1
            parts.append([at, end])
    return parts


def _is_same(old: object, new: object) -> bool:
    """Whether two values and their types are equal: to Python, True, 1 and 1.0 are equal."""
    return old is new or (old == new and _text(old) == _text(new))


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
