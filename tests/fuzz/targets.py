"""The readers to fuzz, each a function of bytes that raises if the reader misbehaves.

A reader may refuse its input with its own error. The keys of `TARGETS` are also the folders of `corpus/`.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

from gputui.commands.printed.attach import report
from gputui.explain.documents.attach import attach_document
from gputui.explain.documents.behind import behind_document
from gputui.explain.ranks.collectives import findings_of
from gputui.model.attached.target import ActionResult, Greeting, Look, Mark, Statistics
from gputui.model.collectives import Inquiry
from gputui.model.decode import DecodeError, decode
from gputui.probe.viewers.requests import RequestError, read_request
from gputui.protocol import frames
from gputui.protocol.black_boxes import FIRST_LINE as FIRST_LINE_OF_BOXES
from gputui.sources.files.black_box import NoBlackBoxError
from gputui.sources.files.black_box import read as read_black_box
from gputui.sources.files.recording.chunks import FIRST_LINE, ChunkKind, write_chunk
from gputui.sources.files.recording.index import NoRecordingError
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.records import LookTaken
from gputui.sources.files.torch_snapshot.snapshot import NoSnapshotError, open_snapshot
from gputui.sources.nccl.decode import decoded
from gputui.sources.probe.messages import recorded_traces, references_part

CORPUS = Path(__file__).parent / "corpus"
MAX_SENTENCE = 300
KINDS = {str(int(kind)).encode(): kind for kind in ChunkKind}
READERS = {"step": recorded_traces, "references": references_part}
MESSAGES = {"greeting": Greeting, "statistics": Statistics, "look": Look, "mark": Mark, "action_result": ActionResult}


def read_requests(data: bytes) -> None:
    """Read requests as the probe does: it may refuse one only with a sentence that it can send."""
    for payload in _payloads(data, frames.MAX_REQUEST_BYTES):
        sentence = _refusal(lambda payload=payload: read_request(frames.decode(payload)))
        frames.encode({"type": "refused", "reason": sentence})
        assert len(sentence) < MAX_SENTENCE


def read_replies(data: bytes) -> None:
    """Read replies as the viewer does: accepted texts contain no control characters."""
    for payload in _payloads(data, frames.MAX_REPLY_BYTES):
        sentence = _refusal(lambda payload=payload: _check_texts(_message(payload)))
        assert sentence.isprintable()
        assert len(sentence) < MAX_SENTENCE


def read_recordings(data: bytes) -> None:
    """Read a recording as a replay does: its records and looks contain no control characters."""
    with tempfile.NamedTemporaryFile(suffix=".gputui") as file:
        file.write(_recording(data[1:]) if data[:1] == b"\0" else data)
        file.flush()
        recording, sentence = _opened(Path(file.name))
        assert sentence.isprintable()
        if recording is None:
            return
        for record in recording.records():
            _check_texts(record.content)
            if isinstance(record.content, LookTaken) and (seen := recording.look(record.pid, record.content.number)):
                _check_texts(seen[0])
        recording.next_mark(recording.begins)
        recording.close()


def _opened(path: Path) -> tuple[Recording | None, str]:
    try:
        return Recording(path), ""
    except NoRecordingError as refusal:
        return None, str(refusal)


def _recording(lines: bytes) -> bytes:
    """A recording of process 7 with valid checksums and a chunk for each line: its kind, then its content as JSON."""
    chunks, number = FIRST_LINE, 0
    for line in lines.split(b"\n"):
        kind = KINDS.get(line[:1])
        if kind is not None:
            is_look = kind is not ChunkKind.RECORDS
            number += is_look
            chunks += _chunk(kind, line[1:], number if is_look else 0)
    return chunks


def _chunk(kind: ChunkKind, text: bytes, number: int) -> bytes:
    try:
        return write_chunk(kind, 7, 1.0, json.loads(text), number)
    except (ValueError, RecursionError):  # not JSON, or a number that JSON cannot hold
        return b""


def _message(payload: bytes) -> object:
    message = frames.decode(payload)
    if message["type"] in READERS:
        return READERS[message["type"]](message)
    kind = MESSAGES.get(str(message["type"]))
    return decode(kind, message) if kind else None


def _refusal(read: Callable[[], object]) -> str:
    """The sentence of the refusal, or "" if nothing was refused."""
    try:
        read()
    except (frames.FrameError, RequestError, DecodeError) as error:
        return str(error)
    return ""


def _payloads(data: bytes, most: int) -> list[bytes]:
    """The payloads of a stream, the same whether it arrives whole or in pieces of the length in its first byte.

    A first byte of zero means one payload without its header, so that mutations by a fuzzer remain a frame.
    """
    step, stream = (data[0], data[1:]) if data else (1, b"")
    if step == 0:
        step, stream = 255, frames.frame(stream)
    whole = _fed([stream], most)
    parts = _fed([stream[start : start + step] for start in range(0, len(stream), step)], most)
    assert parts[: len(whole)] == whole  # if the whole is refused, pieces may have delivered more before
    return parts


def _fed(parts: list[bytes], most: int) -> list[bytes]:
    unpacker, payloads = frames.Unpacker(most), []
    try:
        for part in parts:
            payloads += unpacker.feed(part)
    except frames.FrameError:
        pass
    return payloads


def _check_texts(value: object) -> None:
    if isinstance(value, str):
        assert value.isprintable()
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_texts(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _check_texts(getattr(value, field.name))


def read_ras_answers(data: bytes) -> None:
    """Read NCCL's answer, and say which rank is behind: no text has control characters."""
    try:
        answer = decoded(data)
    except ValueError as error:
        _check_refusal(str(error))
        return
    for inquiry in (Inquiry(10, answer), Inquiry(10, answer, answer)):
        found = findings_of(inquiry)
        _check_texts(tuple(found))
        assert json.dumps(behind_document(inquiry, found), allow_nan=False).isprintable()
        titles = [each.title(pid) for each in found.suspects for pid in (None, 7)]
        _check_texts((*titles, *(each.words for each in found.communicators)))


def read_snapshots(data: bytes) -> None:
    """Open a snapshot of PyTorch's, and print what it holds: no text in it contains control characters."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(data)
        file.flush()
        try:
            moment = open_snapshot(Path(file.name))
        except NoSnapshotError as error:
            _check_refusal(str(error))
            return
    _check_texts((moment.look, moment.traces, moment.failure))
    assert json.dumps(attach_document(moment), allow_nan=False).isprintable()
    assert report(moment, (), 80, in_color=False).replace("\n", "").isprintable()


def read_black_boxes(data: bytes) -> None:
    """Open a black box, and print what it holds; after a zero byte, the lines are its messages as JSON."""
    with tempfile.NamedTemporaryFile(suffix=".gputui-oom") as file:
        file.write(_black_box(data[1:]) if data[:1] == b"\0" else data)
        file.flush()
        try:
            box = read_black_box(Path(file.name))
        except NoBlackBoxError as error:
            _check_refusal(str(error))
            return
    _check_texts((box.moment.look, box.failure))
    for notice in box.notices:
        _check_refusal(notice)
    assert json.dumps(attach_document(box.moment), allow_nan=False).isprintable()
    assert report(box.moment, (), 80, in_color=False).replace("\n", "").isprintable()


def _black_box(lines: bytes) -> bytes:
    """A black box of these messages, the last in a stream of its own if it says how the program ended."""
    *messages, last = [frames.frame(line) for line in lines.split(b"\n")]
    is_end = b'"ended"' in last
    streams = [[*messages], [last]] if is_end else [[*messages, last]]
    return FIRST_LINE_OF_BOXES + b"".join(zlib.compress(b"".join(stream), 1) for stream in streams)


def _check_refusal(sentence: str) -> None:
    assert sentence.isprintable()
    assert len(sentence) < 2 * MAX_SENTENCE


TARGETS: dict[str, Callable[[bytes], None]] = {
    "requests": read_requests,
    "replies": read_replies,
    "recordings": read_recordings,
    "snapshots": read_snapshots,
    "black_boxes": read_black_boxes,
    "ras_answers": read_ras_answers,
}
