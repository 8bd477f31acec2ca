"""Makes frames of JSON from looks and results of actions; storages become a table, which names their fields once.

One call of `json.dumps` holds the interpreter for as long as it takes, and so does freeing what was encoded. A look may
have 100,000 tensors: a few hundred items at a time are encoded and freed, with pauses in between for other threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from operator import itemgetter
from typing import Any

from gputui.probe.guards.originals import thread_time
from gputui.probe.guards.probe_thread import let_others_run
from gputui.protocol import frames

_NOT_SENT = frozenset({"by_address"})
"""The fields of an inventory that only the next look needs."""


def look_frame(look: dict[str, Any]) -> tuple[list[bytes], float]:
    """A look as the pieces of a frame, and its cost in seconds: the longest stop, or the processor time if larger."""
    began = thread_time()
    cost = look.pop("cost")
    pieces = encode_in_pieces(with_table(look))
    cost["probe_cpu_ms"] += (thread_time() - began) * 1000
    pieces[-1:] = [b',"cost":', *encode_in_pieces(cost), b"}"]
    return _frame_within_limit(pieces, "look"), max(cost["pause_ms"], cost["probe_cpu_ms"]) / 1000


def action_result_frame(result: dict[str, Any]) -> list[bytes]:
    """The result of an action as the pieces of a frame, without its map if that makes it too large."""
    without_map = {**result, "map": None, "devices": list(result["devices"])}
    pieces = encode_in_pieces(with_table(result))
    return frame(pieces if size_of(pieces) <= frames.MAX_REPLY_BYTES else encode_in_pieces(without_map))


def step_frame(step: dict[str, Any]) -> list[bytes]:
    """A recorded step with its look as the pieces of a frame."""
    return _frame_within_limit(encode_in_pieces(with_table(step)), "recorded step")


def _frame_within_limit(pieces: list[bytes], name: str) -> list[bytes]:
    """The frame of a message, or of a `failed` message that says that it is too large."""
    if size_of(pieces) > frames.MAX_REPLY_BYTES:
        reason = f"The {name} has {size_of(pieces)} bytes, and at most {frames.MAX_REPLY_BYTES} can be sent."
        pieces = encode_in_pieces({"type": "failed", "reason": reason})
    return frame(pieces)


def with_table(message: dict[str, Any]) -> dict[str, Any]:
    """The message, with the storages of its inventory, if it has one, as {columns, rows}."""
    inventory = message.get("inventory")
    if not inventory:
        return message
    fields = {name: value for name, value in inventory.items() if name not in _NOT_SENT}
    storages = fields["storages"]
    columns = list(storages[0]) if storages else []
    if len(columns) > 1:
        fields["storages"] = {"columns": columns, "rows": list(map(itemgetter(*columns), storages))}
    return {**message, "inventory": fields}


_ITEMS = 256
VALUES = 4
"""How many values in a row weigh as much as one item."""
_CHECKED_BYTES = 4096
_WORK_S = 0.0005
"""The processor time of encoding between two pauses."""


def frame(pieces: list[bytes]) -> list[bytes]:
    """The frame of one message, in pieces."""
    return [frames.header(size_of(pieces)), *pieces]


def size_of(pieces: list[bytes]) -> int:
    """The number of bytes in all these pieces."""
    return sum(map(len, pieces))


def encode_in_pieces(message: dict[str, Any]) -> list[bytes]:
    """The pieces of `message` as JSON; empties the lists in it."""
    pieces, began, unchecked_bytes = [], thread_time(), 0
    for piece in pieces_of(message):
        pieces.append(piece)
        unchecked_bytes += len(piece)
        if unchecked_bytes > _CHECKED_BYTES:  # reading the clock takes as long as a small piece
            unchecked_bytes = 0
            if thread_time() - began > _WORK_S:
                let_others_run()
                began = thread_time()
    return pieces


def pieces_of(value: Any) -> Iterator[bytes]:  # noqa: ANN401
    """A value as JSON; empties the lists in it."""
    if isinstance(value, dict) and value:
        for number, (key, part) in enumerate(value.items()):
            yield f"{',' if number else '{'}{dumps(key)}:".encode()
            yield from pieces_of(part)
        yield b"}"
    elif isinstance(value, list) and value:
        yield from _list_pieces(value)
    else:
        yield dumps(value).encode()


def _list_pieces(items: list[Any]) -> Iterator[bytes]:
    separator = b"["
    items.reverse()  # popping from the end moves no other item
    while items:
        yield separator
        separator = b","
        batch = _pop_batch(items)
        if batch:
            yield dumps(batch, separators=(",", ":"))[1:-1].encode()
        else:
            yield from pieces_of(items.pop())
    yield b"]"


def _pop_batch(items: list[Any]) -> list[Any]:
    """Items from the end that make up one piece; [] if the next item alone is too large for a piece."""
    batch: list[Any] = []
    weight = 0
    while items and (weight := weight + _weight(items[-1])) <= _ITEMS:
        batch.append(items.pop())
    return batch


def _weight(item: Any) -> int:  # noqa: ANN401
    if isinstance(item, dict):
        return 1 + sum(len(part) for part in item.values() if isinstance(part, list))
    return 1 + len(item) // VALUES if isinstance(item, (list, tuple)) else 1
