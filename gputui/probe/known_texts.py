"""The JSON of what was sent before: of parameters, optimizer states and segments, most of which stay the same.

A storage is recognised by its entry, the very object that the last look had; segments by a whole column of their table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from json import JSONEncoder
from operator import itemgetter
from typing import Any, Callable, Dict

from gputui.probe.batches import Batch, Placed, beside_batches
from gputui.probe.encoding import Encoded, pieces_of

LASTING = frozenset({"parameter", "gradient", "buffer", "optimizer_state"})
"""The categories whose entries do not change once a look is over; their entries are the same in the next look."""
OTHER = "other"
"""The category whose entries do not change either, but only some are the same in the next look."""
STORAGES_AT_MOST = 20_000
SEGMENTS_AT_MOST = 2_000
"""How many texts are kept: some 5 MB of host memory for storages."""
BATCH_AT_MOST = 4096
"""The storages of a larger batch have texts of their own: one text of all takes too long to make at once."""
SHORT = ("type", "time", "statistics", "settings", "problems")
"""The fields of a message that one call encodes in no time; each message has a type."""
STATES = frozenset({"active_allocated", "active_pending_free", "inactive"})
"""The states of blocks, which need no escapes."""
_between = '","'
_ROWS_AT_ONCE = 64
_TEXTS_AT_ONCE = 512
_VALUES_AT_ONCE = 2048
_NOT_SENT = frozenset({"storages", "batches", "by_address", "is_brief", "has_all_owned"})
"""The fields of an inventory that are not sent, or not as they are."""
_GONE_AT_MOST = 16
"""How many texts of storages that are gone may stay in a small program, so that not every look sorts them out."""

RowOf = Callable[[Dict[str, Any]], Any]
_encode = JSONEncoder(separators=(",", ":")).encode


class KnownTexts:
    """Belongs to the probe's thread."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._entries: dict[int, dict[str, Any]] = {}
        """Those that have a text, by their id: as long as they are kept, no other entry gets it."""
        self._rows: dict[int, bytes] = {}
        self._others: dict[int, dict[str, Any]] = {}
        """Those of this look that may come again, by their id."""
        self._last_others: dict[int, dict[str, Any]] = {}
        self._segments: dict[str, tuple[list[Any], bytes]] = {}
        """The columns of the last table of segments, by name."""

    def storages(self, storages: list[dict[str, Any]], batches: Placed) -> Encoded | list[dict[str, Any]]:
        """A table of storages, those with a known text first; the list itself if their fields differ."""
        known = [(first, batch) for first, batch in batches if 0 < len(batch.entries) <= BATCH_AT_MOST]
        others = beside_batches(storages, known)
        if not storages or len(set(map(len, others))) > 1:
            return storages
        columns = list(storages[0])
        if columns != self._columns:
            self._columns, self._entries, self._rows = columns, {}, {}
        return Encoded(self._table([batch for _, batch in known], others, itemgetter(*columns)))

    def segments(self, table: dict[str, Any]) -> Encoded:
        """All segments, as `blockmap.describe_map` returns them; empties the columns of blocks."""
        return Encoded(self._map(table))

    def _table(self, batches: list[Batch], storages: list[dict[str, Any]], row_of: RowOf) -> Iterator[bytes]:
        yield b'{"columns":' + _encode(self._columns).encode() + b',"rows":['
        parts = chain(self._of_batches(batches, row_of), self._others_of(storages, row_of))
        yield next(parts, b"")
        for part in parts:
            yield b"," + part
        yield b"]}"

    def _of_batches(self, batches: list[Batch], row_of: RowOf) -> Iterator[bytes]:
        for batch in batches:
            if not batch.text:
                rows = map(self._rows.get, map(id, batch.entries.values()))
                batch.text = b",".join(
                    text or _encode(row_of(entry)).encode() for text, entry in zip(rows, batch.entries.values())
                )
            yield batch.text

    def _others_of(self, storages: list[dict[str, Any]], row_of: RowOf) -> Iterator[bytes]:
        self._last_others, self._others = self._others, {}
        texts = list(map(self._rows.get, map(id, storages)))
        known = list(filter(None, texts))
        unknown = [storage for storage, text in zip(storages, texts) if text is None]
        if len(self._rows) > 2 * len(known) + _GONE_AT_MOST:
            self._keep_only(storages)
        for start in range(0, len(known), _TEXTS_AT_ONCE):
            yield b",".join(known[start : start + _TEXTS_AT_ONCE])
        for start in range(0, len(unknown), _ROWS_AT_ONCE):
            yield b",".join(self._new(unknown[start : start + _ROWS_AT_ONCE], row_of))

    def _new(self, storages: list[dict[str, Any]], row_of: RowOf) -> Iterator[bytes]:
        """The rows of storages without a text, which is kept where it lasts."""
        passing = []
        for storage in storages:
            category = storage["category"]
            is_lasting = category in LASTING or (category == OTHER and self._is_again(storage))
            if is_lasting and len(self._rows) < STORAGES_AT_MOST:
                text = self._rows[id(storage)] = _encode(row_of(storage)).encode()
                self._entries[id(storage)] = storage
                yield text
            else:
                passing.append(storage)
        if passing:
            yield _encode(list(map(row_of, passing)))[1:-1].encode()

    def _is_again(self, storage: dict[str, Any]) -> bool:
        """Whether the last look had this entry, too."""
        self._others[id(storage)] = storage
        return self._last_others.get(id(storage)) is storage

    def _keep_only(self, storages: list[dict[str, Any]]) -> None:
        idents = self._rows.keys() & set(map(id, storages))
        self._entries = {ident: self._entries[ident] for ident in idents}
        self._rows = {ident: self._rows[ident] for ident in idents}

    def _map(self, table: dict[str, Any]) -> Iterator[bytes]:
        blocks = table["blocks"]
        yield b'{"columns":' + _encode(table["columns"]).encode() + b',"values":'
        yield from self._values(table["columns"], table["values"])
        yield b',"blocks":{"columns":' + _encode(blocks["columns"]).encode() + b',"values":'
        yield from _values(blocks["values"])
        yield b"}}"

    def _values(self, names: list[str], values: list[list[Any]]) -> Iterator[bytes]:
        """The columns of a table of segments, most of which are the same in the next look."""
        if len(values[0]) > SEGMENTS_AT_MOST:
            self._segments = {}
            yield from _values(values)
            return
        texts = []
        for name, column in zip(names, values):
            known, text = self._segments.get(name, (None, b""))
            if known != column:
                text = b"[" + _encode(column)[1:-1].encode() + b"]"
                self._segments[name] = column, text
            texts.append(text)
        yield b"[" + b",".join(texts) + b"]"


def _values(values: list[list[Any]]) -> Iterator[bytes]:
    """Columns as JSON, which are emptied some values at a time."""
    for number, column in enumerate(values):
        yield b"],[" if number else b"[["
        separator = b""
        column.reverse()  # deleting from the end moves no other value
        while column:
            part = column[: -_VALUES_AT_ONCE - 1 : -1]
            del column[-_VALUES_AT_ONCE:]
            are_states = type(part[0]) is str and STATES.issuperset(part)
            yield separator + (_of_states(part) if are_states else _encode(part)[1:-1].encode())
            separator = b","
    yield b"]]"


def _of_states(states: list[str]) -> bytes:
    return f'"{_between.join(states)}"'.encode()


def with_texts(message: dict[str, Any], known: KnownTexts | None = None) -> Encoded:
    """A message whose inventory and map are JSON where they were sent before; empties the blocks of the map."""
    known = known or KnownTexts()
    short = {name: message[name] for name in SHORT if name in message}
    long = {name: value for name, value in message.items() if name not in short}
    inventory, layout = message.get("inventory"), message.get("map")
    if inventory:
        batches = inventory.get("batches", [])
        others = {name: value for name, value in inventory.items() if name not in _NOT_SENT}
        long["inventory"] = _with_long(others, {"storages": known.storages(inventory["storages"], batches)})
    if layout:
        others = {name: value for name, value in layout.items() if name != "segments"}
        long["map"] = _with_long(others, {"segments": known.segments(layout["segments"])})
    return _with_long(short, long)


def _with_long(short: dict[str, Any], long: dict[str, Any]) -> Encoded:
    """An object of these fields: the short ones are encoded in one call."""
    return Encoded(_fields(short, long))


def _fields(short: dict[str, Any], long: dict[str, Any]) -> Iterator[bytes]:
    yield _encode(short)[:-1].encode()
    for name, value in long.items():
        yield f",{_encode(name)}:".encode()
        yield from pieces_of(value)
    yield b"}"
