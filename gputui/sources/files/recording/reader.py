"""An open recording: its records in order, and its looks by number. It checks all that it reads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from gputui.explain.moment.probe_state import Layouts, layouts_of
from gputui.explain.owners.earlier_names import EarlierLooks, completed
from gputui.model.attached.target import Greeting, Look, Mark
from gputui.model.decode import DecodeError
from gputui.sources.files.recording.chunks import (
    HEADER_BYTES,
    INFLATED_AT_LEAST,
    INFLATED_PER_BYTE,
    ChunkKind,
    DamagedError,
    content_of,
    text_of,
)
from gputui.sources.files.recording.index import ChunkPlace, NoRecordingError, open_file, places_of
from gputui.sources.files.recording.patch import PatchError, patched
from gputui.sources.files.recording.records import Record, RecordingInfo, record_of
from gputui.sources.probe.messages import message_of

CHANGES_AT_MOST = 64
"""The most differences between a look and the whole look before it."""

LOOKS_AT_HAND = 128
LOOKS_BEFORE = 4
"""From how many earlier looks a look is completed after a jump: more would take a second in a large recording."""

INFLATES_TOO_MUCH = (
    f"The file inflates to more than {INFLATED_PER_BYTE} times its size, which no recording by gputui does: the parts"
    " that had not been read by then are left out."
)

SeenLook = tuple[Look, Layouts]


class Recording:
    """An open recording. `notices` are sentences about what is lost. Use it in one thread at a time.

    Raises NoRecordingError if a file cannot be shown.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_file(path)
        self._inflated: set[int] = set()
        """The offsets of the chunks that were inflated."""
        self._may_inflate_bytes = 0
        """To how many bytes the other chunks may still inflate, together."""
        try:
            self._may_inflate_bytes = max(INFLATED_AT_LEAST, INFLATED_PER_BYTE * path.stat().st_size)
            self.places, notices = places_of(self._file)
        except OSError as error:
            cause = f"{path} cannot be read: {error.strerror}."
            raise NoRecordingError(cause) from None
        self.notices = tuple(notices)
        looks = (ChunkKind.LOOK, ChunkKind.CHANGED_LOOK)
        self._look_places = {(p.header.pid, p.header.number): p for p in self.places if p.header.kind in looks}
        self._texts: dict[int, tuple[int, dict[str, Any]]] = {}
        """For each process, number and JSON of the look that was read last."""
        self._looks: OrderedDict[tuple[int, int], tuple[Look, Layouts, EarlierLooks] | None] = OrderedDict()
        self._read_ends(path)

    def _read_ends(self, path: Path) -> None:
        self.greetings: dict[int, Greeting] = {}
        """The first greeting of each process."""
        for place in self.places:
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
        self.begins = min(greeting.header.time for greeting in self.places if greeting.header.pid)
        self.ends = max(last, self.begins)

    def _last_records(self) -> Iterator[Record]:
        for place in reversed(self.places):
            if place.header.kind == ChunkKind.RECORDS:
                yield from self._records_at(place)
                return

    def records(self, since: float = 0.0) -> Iterator[Record]:
        """All records in order; with `since` (epoch seconds) only those of chunks that begin then or later."""
        return (record for _, record in self.numbered_records(since=since))

    def numbered_records(self, first: int = 0, since: float = 0.0) -> Iterator[tuple[int, Record]]:
        """The records of the chunks from number `first` on, each with the number of its chunk."""
        for number in range(first, len(self.places)):
            place = self.places[number]
            if place.header.kind == ChunkKind.RECORDS and place.header.time >= since:
                for record in self._records_at(place):
                    yield number, record

    def next_mark(self, since: float) -> float | None:
        """When the first mark after `since` was set, None if there is none."""
        later = (record.time for record in self.records(since - 60.0) if isinstance(record.content, Mark))
        return next((time for time in later if time > since), None)

    def look(self, pid: int, number: int, named: int = 0) -> SeenLook | None:
        """The look of a process with this number, completed from the looks before it as in a live viewer; None if lost.

        `named` is the number of the newest look, up to this one, that had time for the tensors. After a jump, only that
        look and a few before this one are read.
        """
        key = (pid, number)
        if key not in self._looks:
            self._looks[key] = self._seen(pid, number, named)
            for old in list(islice(self._looks, max(0, len(self._looks) - LOOKS_AT_HAND))):
                del self._looks[old]
        self._looks.move_to_end(key)
        seen = self._looks[key]
        return (seen[0], seen[1]) if seen else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _seen(self, pid: int, number: int, named: int) -> tuple[Look, Layouts, EarlierLooks] | None:
        earlier: EarlierLooks = (None, None)
        for other in self._before(pid, number, named):
            seen = self._looks.get((pid, other))
            if seen is not None:
                earlier = seen[2]
            elif (decoded := self._decoded(pid, other)) is not None:
                _, earlier = completed(decoded, earlier)
        own = self._decoded(pid, number)
        if own is None:
            return None
        look, earlier = completed(own, earlier)
        return look, layouts_of(look), earlier

    def _before(self, pid: int, number: int, named: int) -> list[int]:
        """The numbers of the looks to complete a look from, oldest first: since the newest at hand, or only a few."""
        few = list(range(max(1, number - LOOKS_BEFORE), number))
        at_hand = [other for other in few if self._looks.get((pid, other)) is not None]
        if at_hand:
            return list(range(at_hand[-1], number))
        return [named, *few] if 0 < named < number - LOOKS_BEFORE else few

    def _decoded(self, pid: int, number: int) -> Look | None:
        try:
            look = message_of(self.look_text(pid, number))
        except (DamagedError, DecodeError, PatchError):
            return None
        return look if isinstance(look, Look) else None

    def look_text(self, pid: int, number: int) -> dict[str, Any]:
        """A look as JSON, from the last whole look, or the look read last, and the differences since."""
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
                text = self.content_at(place)
            else:
                changes.append(self.content_at(place))
                at -= 1
        for change in reversed(changes):
            text = patched(text, change)
        if not isinstance(text, dict) or text.get("type") != "look":
            raise DamagedError("not a look")
        self._texts[pid] = (number, text)
        return text

    def _records_at(self, place: ChunkPlace) -> Iterator[Record]:
        try:
            content = self.content_at(place)
            records = [record_of(value) for value in content] if isinstance(content, list) else []
        except DamagedError:
            return
        yield from filter(None, records)

    def content_at(self, place: ChunkPlace) -> Any:  # noqa: ANN401 - any JSON value
        """The content of a chunk; raises DamagedError."""
        try:
            self._file.seek(place.offset)
            header = self._file.read(HEADER_BYTES)
            payload = self._file.read(place.header.payload_bytes)
        except OSError as error:
            raise DamagedError(error.strerror or str(error)) from error
        if place.offset in self._inflated:
            return content_of(text_of(header, payload))
        if self._may_inflate_bytes < 0:
            raise DamagedError("the file inflates to too much")
        text = text_of(header, payload)
        self._count(place, len(text))
        return content_of(text)

    def _count(self, place: ChunkPlace, text_bytes: int) -> None:
        """Count a chunk once, however often it is read again."""
        self._inflated.add(place.offset)
        self._may_inflate_bytes -= text_bytes
        if self._may_inflate_bytes < 0:
            self.notices += (INFLATES_TOO_MUCH,)
