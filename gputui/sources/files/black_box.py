"""Reads the black box that a probe has written at an out-of-memory error, and checks all that it reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gputui.errors import GputuiError
from gputui.explain.failure.outside import as_before_the_end
from gputui.explain.failure.phase import as_activations
from gputui.explain.moment.probe_state import ProbeState, after, moment_of
from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.failure import Failure
from gputui.model.attached.moment import HostMoment, OpenedFile, TargetMoment
from gputui.model.attached.target import Disconnect, DisconnectKind, Ending, Greeting, Look, Statistics
from gputui.model.attached.tensors import HOST
from gputui.model.attached.trace import Trace
from gputui.model.decode import DecodeError, decode
from gputui.model.reading import Absent
from gputui.protocol.black_boxes import FIRST_LINE, FIRST_WORDS, VERSION
from gputui.protocol.frames import MAX_REPLY_BYTES, FrameError, Unpacker
from gputui.protocol.frames import decode as message_in
from gputui.regular_files import open_regular
from gputui.sources.probe.messages import message_of, traces_in

KIND = "black box"
LONGEST_FIRST_LINE = 64
MAX_CONTENT_BYTES = MAX_REPLY_BYTES + 16 * 1024**2
"""The largest content once it is inflated: a look of the largest size, and the other messages."""
MESSAGES_AT_MOST = 16
_PIECE_BYTES = 1024**2
_NOT_RECORDED = Absent("a black box does not have it")
_LIMITED = Absent("a memory fraction limits what the process may use")
_NAME_ONE = "`gputui black-box` lists those that were kept."
_UNFINISHED_END = "The last message of the black box is damaged: how the program ended is not known."


class NoBlackBoxError(GputuiError):
    """A file that cannot be shown as a black box, with the reason and the remedy."""


class _DamagedError(Exception):
    """What is wrong with the content."""


@dataclass(frozen=True, slots=True)
class BlackBox:
    """The process at the moment of the error (`failure`); `notices` are sentences about what is lost in the file."""

    moment: TargetMoment
    failure: Failure
    notices: tuple[str, ...] = ()


@dataclass
class _Content:
    """The messages of a file, the last one of each kind; `damage` is why reading ended early."""

    greeting: Greeting | None = None
    statistics: Statistics | None = None
    failure: Failure | None = None
    look: Look | None = None
    ending: Ending | None = None
    traces: tuple[Trace, ...] = ()
    damage: str = ""


def is_black_box(first_bytes: bytes) -> bool:
    """Whether a file that begins with these bytes is a black box, of any version."""
    return first_bytes.startswith(FIRST_WORDS)


def read(path: Path) -> BlackBox:
    """The black box in a file; raises NoBlackBoxError."""
    content = _content(path)
    greeting, failure = content.greeting, content.failure
    if greeting is None or failure is None:
        cause = f"{path} is damaged: {content.damage or 'it has no out-of-memory error in it'}."
        raise NoBlackBoxError(cause, _NAME_ONE)
    if content.ending is not None:
        failure = replace(failure, message=content.ending.error)
    notices = []
    if content.look is None:
        notices.append(f"{path} is damaged: {content.damage or 'it has no look in it'}. Only the error is shown.")
    elif content.damage:
        notices.append(_UNFINISHED_END)
    moment = replace(_moment(content, greeting, failure), file=OpenedFile(KIND, path.name))
    return BlackBox(moment, failure, tuple(notices))


def _moment(content: _Content, greeting: Greeting, failure: Failure) -> TargetMoment:
    state = ProbeState(greeting)
    look = content.look and as_activations(content.look, failure)
    look = as_before_the_end(look) if look and failure.asked_by else look
    for message in (content.statistics, look):
        if message is not None:
            state = after(state, message)
    storages = look.inventory.storages if look and look.inventory else ()
    on_host = tuple(storage for storage in storages if storage.device == HOST)
    pinned_bytes = None if content.statistics is None else content.statistics.pinned_bytes
    host = HostMoment(
        rss_bytes=_NOT_RECORDED,
        pinned_bytes=_NOT_RECORDED if pinned_bytes is None else pinned_bytes,
        tensor_bytes=sum(storage.size_bytes for storage in on_host),
        storages=on_host,
    )
    ending = content.ending
    ended = Disconnect(DisconnectKind.ERROR, ending.error) if ending and ending.is_exit else None
    moment = moment_of(failure.time, state, {failure.device: _driver_facts(failure)}, host, ended)
    traces = content.traces if look is not None and look.map is not None else ()
    return replace(moment, failure=failure, traces=traces)


def _driver_facts(failure: Failure) -> DriverFacts:
    """What the driver told PyTorch about the device: cudaMemGetInfo's total leaves out what the driver reserves."""
    return DriverFacts(
        nvml_index=None,
        device_total_bytes=failure.device_total_bytes,
        device_used_bytes=failure.device_total_bytes - failure.device_free_bytes,
        process_used_bytes=_NOT_RECORDED,
        device_free_bytes=failure.device_free_bytes if failure.allowed_bytes is None else _LIMITED,
        utilization_percent=_NOT_RECORDED,
    )


def _content(path: Path) -> _Content:
    content = _Content()
    try:
        with open_regular(path) as file:
            _check_first_line(path, file.readline(LONGEST_FIRST_LINE))
            pieces = iter(lambda: file.read(_PIECE_BYTES), b"")
            try:
                for message in _messages(pieces):
                    _take(content, message)
            except (_DamagedError, FrameError, DecodeError, zlib.error) as error:
                content.damage = str(error)
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise NoBlackBoxError(cause, _NAME_ONE) from None
    return content


def _check_first_line(path: Path, line: bytes) -> None:
    if line == FIRST_LINE:
        return
    version = line.removeprefix(FIRST_WORDS).strip()
    if is_black_box(line) and version.isdigit() and int(version) > VERSION:
        cause = f"{path} is a black box of a newer gputui (version {int(version)} of the file)."
        raise NoBlackBoxError(cause, "Open it with that gputui: pip install --upgrade gputui.")
    cause = f"{path} is not a black box of gputui."
    raise NoBlackBoxError(cause, _NAME_ONE)


def _messages(pieces: Iterator[bytes]) -> Iterator[dict[str, object]]:
    unpacker = Unpacker(MAX_REPLY_BYTES)
    number = 0
    for data in _inflated(pieces):
        for payload in unpacker.feed(data):
            number += 1
            if number > MESSAGES_AT_MOST:
                raise _DamagedError("it has more messages than a probe writes")
            yield message_in(payload)
    if unpacker.is_midway:
        raise _DamagedError("a message is cut off")


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of one zlib stream after the other, at most `_PIECE_BYTES` at a time."""
    total = 0
    inflater = zlib.decompressobj()
    for piece in pieces:
        rest = piece
        while rest or inflater.unconsumed_tail:
            data = inflater.decompress(inflater.unconsumed_tail + rest, _PIECE_BYTES)
            rest = b""
            total += len(data)
            if total > MAX_CONTENT_BYTES:
                raise _DamagedError("it inflates to more than a probe writes")
            yield data
            if inflater.eof:
                rest, inflater = inflater.unused_data, zlib.decompressobj()


def _take(content: _Content, message: dict[str, object]) -> None:
    """Keep a message in `content`; a message of an unknown kind is skipped."""
    kind = message["type"]
    if kind == "failure":
        failure = decode(Failure, message)
        if min(failure.requested_bytes, failure.device_free_bytes, failure.device_total_bytes) < 0:
            raise _DamagedError("it has a negative size")
        content.failure = failure
    elif kind == "traces":
        content.traces = traces_in(message)
    elif kind == "ended":
        content.ending = decode(Ending, message)
    else:
        decoded = message_of(message)
        if isinstance(decoded, Greeting):
            content.greeting = decoded
        elif isinstance(decoded, Statistics):
            content.statistics = decoded
        elif isinstance(decoded, Look):
            content.look = decoded
