"""What stands in the chunks of a recording: JSON values of one form, made here and checked here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Union

from gputui.model.allocator import AllocatorStatistics
from gputui.model.moment import Surroundings
from gputui.model.reading import Absent, AbsentKind
from gputui.model.target import ActionResult, Greeting, Mark, Statistics
from gputui.sources.probe.client import message_of
from gputui.sources.probe.decode import DecodeError, decode, field_names, is_record
from gputui.sources.recording.chunks import DamagedError


@dataclass(frozen=True, slots=True)
class About:
    """What is said once, at the beginning: by which gputui, on which host."""

    gputui: str
    hostname: str


@dataclass(frozen=True, slots=True)
class Looked:
    """A look has come: itself it stands in a chunk of its own, with this number; its time and counters are these.

    `named` is the number of the newest look until then that had time for the tensors, 0 where there was none.
    """

    number: int
    time: float
    statistics: tuple[AllocatorStatistics, ...]
    named: int = 0


Said = Union[Greeting, Statistics, Mark, ActionResult, Surroundings, About, Looked]


@dataclass(frozen=True, slots=True)
class Record:
    """What was said at `time` (epoch seconds), of the process `pid` (0: of none)."""

    time: float
    pid: int
    said: Said


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """A dataclass or named tuple of the model as JSON, which `decode` makes the same of again."""
    if isinstance(value, Absent):
        return {"absent": value.reason} | ({} if value.kind is AbsentKind.FAILED else {"kind": value.kind.value})
    if is_record(value):
        return {name: plain(getattr(value, name)) for name in field_names(value)}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def record_of(value: object) -> Record | None:
    """The record in a JSON value, None where it is of a kind that this version does not know; raises DamagedError."""
    if not isinstance(value, list) or len(value) != 4:
        raise DamagedError("not a record")
    try:
        time, pid = decode(float, value[0]), decode(int, value[1])
        said = _said(value[2], value[3])
    except DecodeError as error:
        raise DamagedError(str(error)) from error
    return None if said is None else Record(time, pid, said)


def _said(kind: object, content: object) -> Said | None:
    if kind == "about":
        return decode(About, content)
    if kind == "looked":
        return decode(Looked, content)
    if kind == "around":
        return decode(Surroundings, content)
    if kind == "heard" and isinstance(content, dict) and isinstance(content.get("type"), str):
        message = message_of(content)
        return message if isinstance(message, (Greeting, Statistics, Mark, ActionResult)) else None
    return None
