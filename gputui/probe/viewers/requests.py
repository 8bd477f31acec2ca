"""The requests of viewers, each checked field by field; anything else is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import accumulate
from math import isfinite
from typing import Any

from gputui.probe.pace.budget import LookRequest
from gputui.probe.viewers.actions import ACTIONS, RECORD_STEP, ActionRequest
from gputui.probe.viewers.garbage import GarbageRequest
from gputui.protocol import pauses

MAX_LABEL = 200
PLACE_FIELDS = 4
_LARGEST = 10**18


class RequestError(Exception):
    """A message that is not one of the requests; its text says what is wrong with it."""


class Request(str, Enum):
    """The `type` of a viewer's message."""

    HELLO = "hello"
    STATISTICS = "statistics"
    LOOK = "look"
    MARK = "mark"
    ACTION = "action"
    REFERENCES = "references"
    GARBAGE = "garbage"
    END = "end"
    BYE = "bye"


def read_request(message: dict[str, Any]) -> tuple[Request, Any]:
    """Which request a message is, with its content; raises RequestError."""
    try:
        request = Request(message["type"])
    except ValueError as error:
        raise RequestError(_wrong("type", message["type"])) from error
    return request, _READ[request](message)


def _interval(message: dict[str, Any]) -> float | None:
    if message.get("interval_s") is None:
        return None
    return _number(message, "interval_s", 0.1, 3600.0)


def _look(message: dict[str, Any]) -> LookRequest:
    method, when = message.get("how", "walk"), message.get("when", "now")
    if method not in ("", "walk", "scan"):
        raise RequestError(_wrong("how", method))
    if when not in ("now", "changed"):
        raise RequestError(_wrong("when", when))
    is_urgent = when == "now"
    pause_s = pauses.LONGEST_S if is_urgent else pauses.AUTOMATIC_S
    return LookRequest(method, is_urgent, *_times({"pause_ms": pause_s * 1000, **message}))


def _action(message: dict[str, Any]) -> ActionRequest:
    name = message.get("name")
    if not isinstance(name, str) or name not in (*ACTIONS, RECORD_STEP):
        raise RequestError(_wrong("name", name))
    return ActionRequest(name, _number({"wait_s": 10.0, **message}, "wait_s", 0.0, 60.0))


def _references(message: dict[str, Any]) -> GarbageRequest:
    place = message.get("place")
    if place is not None:
        place = tuple(_integers(message, "place"))
        if len(place) != PLACE_FIELDS:
            raise RequestError(_wrong("place", place))
    return GarbageRequest(place, None, [], *_times(message))


def _proof(message: dict[str, Any]) -> GarbageRequest:
    addresses, types = accumulate(_integers(message, "steps")), accumulate(_integers(message, "type_steps"))
    nodes = zip(_integers(message, "nodes"), _integers(message, "node_types"))
    return GarbageRequest(
        None, dict(zip(zip(addresses, types), _integers(message, "cycles"))), list(nodes), *_times(message)
    )


def _times(message: dict[str, Any]) -> tuple[float, float]:
    """How long to wait for the main thread, in seconds, and how long a stop may be, in milliseconds."""
    filled = {"wait_s": 3.0, "pause_ms": pauses.AUTOMATIC_S * 1000, **message}
    lowest, highest = pauses.SHORTEST_S * 1000, pauses.LONGEST_S * 1000
    return _number(filled, "wait_s", 0.0, 60.0), _number(filled, "pause_ms", lowest, highest)


def _integers(message: dict[str, Any], name: str) -> list[int]:
    values = message.get(name)
    if not isinstance(values, list) or not all(type(value) is int and abs(value) <= _LARGEST for value in values):
        raise RequestError(_wrong(name, type(values).__name__))
    return values


def _label(message: dict[str, Any]) -> str:
    label = message.get("label")
    if not isinstance(label, str):
        raise RequestError(_wrong("label", label))
    return label[:MAX_LABEL]


def _number(message: dict[str, Any], name: str, lowest: float, highest: float) -> float:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(_bounded(value)):
        raise RequestError(_wrong(name, value))
    return min(max(float(_bounded(value)), lowest), highest)


def _bounded(value: float) -> float:
    """An integer too large for a float becomes one that still exceeds every limit here."""
    return min(max(value, -_LARGEST), _LARGEST) if isinstance(value, int) else value


def _wrong(name: str, value: object) -> str:
    try:
        text = str(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        text = type(value).__name__
    return f"{name} is {text[:50]!r}"


_READ: dict[Request, Callable[[dict[str, Any]], Any]] = {
    Request.HELLO: lambda message: int(_number(message, "protocol", 0, 1e9)),
    Request.STATISTICS: _interval,
    Request.LOOK: _look,
    Request.MARK: _label,
    Request.ACTION: _action,
    Request.REFERENCES: _references,
    Request.GARBAGE: _proof,
    Request.END: lambda _message: None,
    Request.BYE: lambda _message: None,
}


def is_answered(request: LookRequest | None, method: str, *, is_urgent: bool) -> bool:
    """Whether a look answers the request. A look that was not urgent answers no urgent one: it may lack some parts."""
    return request is not None and request.method == method and (is_urgent or not request.is_urgent)
