"""A look as JSON, in pieces: a map of 100,000 blocks must not keep the program's threads from running.

One call of `json.dumps` holds the interpreter for as long as it takes, and so does freeing what was encoded: both are
done for a few hundred items at a time, with a pause after each in which other threads get their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from time import sleep
from typing import Any

_ITEMS = 256
_CHARACTERS = 16 * 1024
TURN_S = 0.0002
"""The pause in which other threads get their turn."""


def encode_in_pieces(message: dict[str, Any]) -> list[bytes]:
    """The pieces of `message` as JSON; the lists in it are consumed."""
    pieces, characters = [], 0
    for piece in _pieces(message):
        pieces.append(piece.encode())
        characters += len(piece)
        if characters > _CHARACTERS:
            characters = 0
            sleep(TURN_S)
    return pieces


def _pieces(value: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(value, dict) and value:
        for number, (key, part) in enumerate(value.items()):
            yield f"{',' if number else '{'}{dumps(key)}:"
            yield from _pieces(part)
        yield "}"
    elif isinstance(value, list) and value:
        yield from _list_pieces(value)
    else:
        yield dumps(value)


def _list_pieces(items: list[Any]) -> Iterator[str]:
    before = "["
    items.reverse()  # a list gives up its end without moving the rest
    while items:
        yield before
        before = ","
        batch = _batch_from_the_end(items)
        if batch:
            yield dumps(batch, separators=(",", ":"))[1:-1]
        else:
            yield from _pieces(items.pop())
    yield "]"


def _batch_from_the_end(items: list[Any]) -> list[Any]:
    """Items that make up one piece; none where the next one is too large for a piece of its own."""
    batch: list[Any] = []
    weight = 0
    while items and (weight := weight + _weight(items[-1])) <= _ITEMS:
        batch.append(items.pop())
    return batch


def _weight(item: Any) -> int:  # noqa: ANN401
    if isinstance(item, dict):
        return 1 + sum(len(part) for part in item.values() if isinstance(part, list))
    return 1 + len(item) if isinstance(item, list) else 1
