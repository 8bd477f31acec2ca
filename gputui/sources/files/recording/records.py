"""The records in a recording's chunks: makes JSON values of the model's objects, and checks those that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Union

from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.moment import Surroundings
from gputui.model.attached.owners import OwnerName
from gputui.model.attached.target import ActionResult, Garbage, Greeting, Mark, Statistics
from gputui.model.attached.trace import RecordedTraces
from gputui.model.decode import DecodeError, decode, field_names, is_record
from gputui.model.reading import Absent, AbsentKind
from gputui.sources.files.recording.chunks import DamagedError
from gputui.sources.probe.messages import message_of


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """The first record: which gputui made the recording, and on which host."""

    gputui: str
    hostname: str


@dataclass(frozen=True, slots=True)
class LookTaken:
    """The record that a look arrived; the look itself has a chunk of its own with this number.

    `named` is the number of the newest look, up to this one, that had time for the tensors, 0 if there was none.
    """

    number: int
    time: float
    statistics: tuple[AllocatorStatistics, ...]
    named: int = 0


Content = Union[
    Greeting, Statistics, Mark, ActionResult, RecordedTraces, Garbage, Surroundings, RecordingInfo, LookTaken
]


@dataclass(frozen=True, slots=True)
class Record:
    """What arrived at `time` (epoch seconds) about the process `pid` (0: about no process)."""

    time: float
    pid: int
    content: Content


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """An object of the model as a JSON value, from which `decode` makes the object again."""
    if isinstance(value, Absent):
        return {"absent": value.reason} | ({} if value.kind is AbsentKind.FAILED else {"kind": value.kind.value})
    if is_record(value):
        return {name: plain(getattr(value, name)) for name in field_names(value)}
    if isinstance(value, OwnerName):
        return list(value.facts)
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def record_of(value: object) -> Record | None:
    """The record in a JSON value, None if its kind is unknown to this version; raises DamagedError."""
    if not isinstance(value, list) or len(value) != 4:
        raise DamagedError("not a record")
    try:
        time, pid = decode(float, value[0]), decode(int, value[1])
        content = _content(value[2], value[3])
    except DecodeError as error:
        raise DamagedError(str(error)) from error
    return None if content is None else Record(time, pid, content)


def _content(kind: object, content: object) -> Content | None:
    if kind == "recording":
        return decode(RecordingInfo, content)
    if kind == "look_taken":
        return decode(LookTaken, content)
    if kind == "surroundings":
        return decode(Surroundings, content)
    if kind == "message" and isinstance(content, dict) and isinstance(content.get("type"), str):
        message = message_of(content)
        return (
            message
            if isinstance(message, (Greeting, Statistics, Mark, ActionResult, RecordedTraces, Garbage))
            else None
        )
    return None
