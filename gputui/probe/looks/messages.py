"""Looks and the results of actions as frames, with storages as a table: their fields are named once."""

from __future__ import annotations

from operator import itemgetter
from time import thread_time
from typing import Any

from gputui.probe.looks.encoding import encode_in_pieces, frame, size_of
from gputui.protocol import frames

_NOT_SENT = frozenset({"by_address"})
"""The fields of an inventory that serve the next look."""


def look_frame(look: dict[str, Any]) -> tuple[list[bytes], float]:
    """A look as the pieces of a frame, and what it cost in seconds: the larger of pause and processor time."""
    began = thread_time()
    cost = look.pop("cost")
    pieces = encode_in_pieces(with_table(look))
    cost["probe_cpu_ms"] += (thread_time() - began) * 1000
    pieces[-1:] = [b',"cost":', *encode_in_pieces(cost), b"}"]
    if size_of(pieces) > frames.MAX_REPLY_BYTES:
        reason = f"The look has {size_of(pieces)} bytes, and at most {frames.MAX_REPLY_BYTES} can be sent."
        pieces = encode_in_pieces({"type": "failed", "reason": reason})
    return frame(pieces), max(cost["pause_ms"], cost["probe_cpu_ms"]) / 1000


def action_result_frame(result: dict[str, Any]) -> list[bytes]:
    """The result of an action as the pieces of a frame, without its map if that makes it too large."""
    without_map = {**result, "map": None, "devices": list(result["devices"])}
    pieces = encode_in_pieces(with_table(result))
    return frame(pieces if size_of(pieces) <= frames.MAX_REPLY_BYTES else encode_in_pieces(without_map))


def step_frame(step: dict[str, Any]) -> list[bytes]:
    """A recorded step with its look as the pieces of a frame."""
    pieces = encode_in_pieces(with_table(step))
    if size_of(pieces) > frames.MAX_REPLY_BYTES:
        reason = f"The recorded step has {size_of(pieces)} bytes, and at most {frames.MAX_REPLY_BYTES} can be sent."
        pieces = encode_in_pieces({"type": "failed", "reason": reason})
    return frame(pieces)


def with_table(message: dict[str, Any]) -> dict[str, Any]:
    """A message with the storages of its inventory, if it has one, as {columns, rows}."""
    inventory = message.get("inventory")
    if not inventory:
        return message
    fields = {name: value for name, value in inventory.items() if name not in _NOT_SENT}
    storages = fields["storages"]
    columns = list(storages[0]) if storages else []
    if len(columns) > 1:
        fields["storages"] = {"columns": columns, "rows": list(map(itemgetter(*columns), storages))}
    return {**message, "inventory": fields}
