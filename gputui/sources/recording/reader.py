"""An open recording: its records in order, and its looks by number. Everything that is read is checked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from gputui.explain.earlier_names import with_names_of
from gputui.explain.probe_state import Layouts, layouts_of
from gputui.model.target import Greeting, Look, Mark
from gputui.sources.probe.client import message_of
from gputui.sources.probe.decode import DecodeError
from gputui.sources.recording.chunks import HEADER_BYTES, ChunkKind, DamagedError, content_of
from gputui.sources.recording.index import ChunkPlace, NoRecordingError, open_file, places_of
from gputui.sources.recording.patch import PatchError, patched
from gputui.sources.recording.records import Record, RecordingInfo, record_of

CHANGES_AT_MOST = 64
"""The most changes between a look and the whole one that it is read from."""

LOOKS_AT_HAND = 128

SeenLook = tuple[Look, Layouts]


class Recording:
    """An open recording. `notices` are sentences about what is lost. Use it in one thread at a time.

    Raises NoRecordingError if a file cannot be shown.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_file(path)
        try:
            self._places, notices = places_of(self._file)
        except OSError as error:
            cause = f"{path} cannot be read: {error.strerror}."
            raise NoRecordingError(cause) from None
        self.notices = tuple(notices)
        looks = (ChunkKind.LOOK, ChunkKind.CHANGED_LOOK)
        self._look_places = {(p.header.pid, p.header.number): p for p in self._places if p.header.kind in looks}
        self._texts: dict[int, tuple[int, dict[str, Any]]] = {}
        """For each process, the number of the look that was read last, and the look as JSON."""
        self._looks: OrderedDict[tuple[int, int], SeenLook | None] = OrderedDict()
        self._read_ends(path)

    def _read_ends(self, path: Path) -> None:
        self.greetings: dict[int, Greeting] = {}
        """The first greeting of each process."""
        for place in self._places:
            if place.header.kind == ChunkKind.RECORDS and place.header.pid:
                for record in self._records_at(place):
                    if isinstance(record.content, Greeting):
                        self.greetings.setdefault(record.pid, record.content)
        if not self.greetings:
            cause = f"{path} holds nothing to show: the recording ended before the first process was in it."
            raise NoRecordingError(cause, " ".join(self.notices))
        first = next(self.records(), None)
        last = max((record.time for record in self._last_records()), default=0.0)
        self.about = first.content if first and isinstance(first.content, RecordingInfo) else RecordingInfo("", "")
        self.begins = min(greeting.header.time for greeting in self._places if greeting.header.pid)
        self.ends = max(last, self.begins)

    def _last_records(self) -> Iterator[Record]:
        for place in reversed(self._places):
            if place.header.kind == ChunkKind.RECORDS:
                yield from self._records_at(place)
                return

    def records(self, since: float = 0.0) -> Iterator[Record]:
        """All records in order; with `since` (epoch seconds) those of chunks that begin then or later."""
        for place in self._places:
            if place.header.kind == ChunkKind.RECORDS and place.header.time >= since:
                yield from self._records_at(place)

    def next_mark(self, since: float) -> float | None:
        """When the first mark after `since` was set, None if there is none."""
        later = (record.time for record in self.records(since - 60.0) if isinstance(record.content, Mark))
        return next((time for time in later if time > since), None)

    def look(self, pid: int, number: int, named: int = 0) -> SeenLook | None:
        """The look of a process with this number, with the names of look `named` if it has none; None if lost."""
        key = (pid, number)
        if key not in self._looks:
            self._looks[key] = self._seen(pid, number, named)
            for old in list(islice(self._looks, max(0, len(self._looks) - LOOKS_AT_HAND))):
                del self._looks[old]
        self._looks.move_to_end(key)
        return self._looks[key]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _seen(self, pid: int, number: int, named: int) -> SeenLook | None:
        look = self._decoded(pid, number)
        if look is None:
            return None
        if look.inventory is None and 0 < named < number:
            named_look = self.look(pid, named)
            look = with_names_of(look, named_look[0] if named_look else None)
        return look, layouts_of(look)

    def _decoded(self, pid: int, number: int) -> Look | None:
        try:
            look = message_of(self._text(pid, number))
        except (DamagedError, DecodeError, PatchError):
            return None
        return look if isinstance(look, Look) else None

    def _text(self, pid: int, number: int) -> dict[str, Any]:
        """A look as JSON: from a whole one, or the one that was just read, and the changes since."""
        changes: list[object] = []
        at = number
        text: object = None
        while text is None:
            known, known_text = self._texts.get(pid, (0, None))
            if known == at:
                text = known_text
                break
            place = self._look_places.get((pid, at))
            if place is None or len(changes) > CHANGES_AT_MOST:
                raise DamagedError("the look before it is lost")
            if place.header.kind == ChunkKind.LOOK:
                text = self._read(place)
            else:
                changes.append(self._read(place))
                at -= 1
        for change in reversed(changes):
            text = patched(text, change)
        if not isinstance(text, dict) or text.get("type") != "look":
            raise DamagedError("not a look")
        self._texts[pid] = (number, text)
        return text

    def _records_at(self, place: ChunkPlace) -> Iterator[Record]:
        try:
            content = self._read(place)
            records = [record_of(value) for value in content] if isinstance(content, list) else []
        except DamagedError:
            return
        yield from filter(None, records)

    def _read(self, place: ChunkPlace) -> object:
        try:
            self._file.seek(place.offset)
            header = self._file.read(HEADER_BYTES)
            return content_of(header, self._file.read(place.header.payload_bytes))
        except OSError as error:
            raise DamagedError(error.strerror or str(error)) from error
