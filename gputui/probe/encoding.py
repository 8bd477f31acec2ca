"""Large messages as JSON, encoded in pieces so that the program's threads keep running.

One call of `json.dumps` holds the interpreter for as long as it takes, and so does freeing what was encoded. A map may
have 100,000 blocks: a few hundred items at a time are encoded and freed, with a pause after them for other threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from time import sleep, thread_time
from typing import Any

from gputui.protocol import frames
from gputui.protocol.tables import with_tables

_ITEMS = 256
VALUES = 4
"""So many values of a row weigh as much as one item."""
_CHARACTERS = 16 * 1024
PAUSE_S = 0.0002
"""How long the probe's thread sleeps between pieces, so that other threads run."""


def look_frame(look: dict[str, Any]) -> tuple[list[bytes], float]:
    """A look as the pieces of a frame, and what it cost in seconds: the larger of pause and processor time."""
    began = thread_time()
    cost = look.pop("cost")
    pieces = encode_in_pieces(with_tables(look))
    cost["probe_cpu_ms"] += (thread_time() - began) * 1000
    pieces[-1:] = [b',"cost":', *encode_in_pieces(cost), b"}"]
    if _size(pieces) > frames.MAX_REPLY_BYTES:
        reason = f"The look has {_size(pieces)} bytes, and at most {frames.MAX_REPLY_BYTES} can be sent."
        pieces = encode_in_pieces({"type": "failed", "reason": reason})
    return _frame(pieces), max(cost["pause_ms"], cost["probe_cpu_ms"]) / 1000


def action_result_frame(result: dict[str, Any]) -> list[bytes]:
    """The result of an action as the pieces of a frame, without its map if that makes it too large."""
    without_map = result | {"map": None, "devices": list(result["devices"])}
    pieces = encode_in_pieces(with_tables(result))
    return _frame(pieces if _size(pieces) <= frames.MAX_REPLY_BYTES else encode_in_pieces(without_map))


def encode_in_pieces(message: dict[str, Any]) -> list[bytes]:
    """The pieces of `message` as JSON; empties the lists in it."""
    pieces, characters = [], 0
    for piece in _pieces(message):
        pieces.append(piece.encode())
        characters += len(piece)
        if characters > _CHARACTERS:
            characters = 0
            sleep(PAUSE_S)
    return pieces


def _frame(pieces: list[bytes]) -> list[bytes]:
    return [frames.header(_size(pieces)), *pieces]


def _size(pieces: list[bytes]) -> int:
    return sum(map(len, pieces))


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
    separator = "["
    items.reverse()  # popping from the end moves no other item
    while items:
        yield separator
        separator = ","
        batch = _pop_batch(items)
        if batch:
            yield dumps(batch, separators=(",", ":"))[1:-1]
        else:
            yield from _pieces(items.pop())
    yield "]"


def _pop_batch(items: list[Any]) -> list[Any]:
    """Items from the end that make up one piece; none if the next item alone is too large for one."""
    batch: list[Any] = []
    weight = 0
    while items and (weight := weight + _weight(items[-1])) <= _ITEMS:
        batch.append(items.pop())
    return batch


def _weight(item: Any) -> int:  # noqa: ANN401
    if isinstance(item, dict):
        return 1 + sum(len(part) for part in item.values() if isinstance(part, list))
    return 1 + len(item) // VALUES if isinstance(item, (list, tuple)) else 1
