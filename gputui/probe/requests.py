"""What viewers may ask for, each with the form it must have; anything else is refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import isfinite
from typing import Any, NamedTuple

from gputui.probe.process import ACTIONS

MAX_LABEL = 200
_LARGEST = 10**18


class RequestError(Exception):
    """A message that is none of the requests, with the reason in words."""


class Request(str, Enum):
    """The `type` of a viewer's message."""

    HELLO = "hello"
    STATISTICS = "statistics"
    LOOK = "look"
    MARK = "mark"
    ACTION = "action"
    BYE = "bye"


class LookRequest(NamedTuple):
    """`how` is "walk", "scan" or "" (no inventory); one that is not urgent waits for a change and its share of time."""

    how: str
    is_urgent: bool
    wait_s: float


class ActionRequest(NamedTuple):
    """`name` is one of `process.ACTIONS`; the main thread is waited for so long."""

    name: str
    wait_s: float


def read_request(message: dict[str, Any]) -> tuple[Request, Any]:
    """Which request a message is, with its content; raises RequestError."""
    try:
        request = Request(message["type"])
    except ValueError as error:
        raise RequestError(_of("type", message["type"])) from error
    return request, _READ[request](message)


def _interval(message: dict[str, Any]) -> float | None:
    if message.get("interval_s") is None:
        return None
    return _number(message, "interval_s", 0.1, 3600.0)


def _look(message: dict[str, Any]) -> LookRequest:
    how, when = message.get("how", "walk"), message.get("when", "now")
    if how not in ("", "walk", "scan"):
        raise RequestError(_of("how", how))
    if when not in ("now", "changed"):
        raise RequestError(_of("when", when))
    return LookRequest(how, when == "now", _number({"wait_s": 3.0, **message}, "wait_s", 0.0, 60.0))


def _run_action(message: dict[str, Any]) -> ActionRequest:
    name = message.get("name")
    if name not in ACTIONS:
        raise RequestError(_of("name", name))
    return ActionRequest(str(name), _number({"wait_s": 10.0, **message}, "wait_s", 0.0, 60.0))


def _label(message: dict[str, Any]) -> str:
    label = message.get("label")
    if not isinstance(label, str):
        raise RequestError(_of("label", label))
    return label[:MAX_LABEL]


def _number(message: dict[str, Any], name: str, lowest: float, highest: float) -> float:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(_bounded(value)):
        raise RequestError(_of(name, value))
    return min(max(float(_bounded(value)), lowest), highest)


def _bounded(value: float) -> float:
    """An integer that no float can hold as one that is large enough for every limit here."""
    return min(max(value, -_LARGEST), _LARGEST) if isinstance(value, int) else value


def _of(name: str, value: object) -> str:
    try:
        text = str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        text = type(value).__name__
    return f"{name} is {text[:50]!r}"


_READ: dict[Request, Callable[[dict[str, Any]], Any]] = {
    Request.HELLO: lambda message: int(_number(message, "protocol", 0, 1e9)),
    Request.STATISTICS: _interval,
    Request.LOOK: _look,
    Request.MARK: _label,
    Request.ACTION: _run_action,
    Request.BYE: lambda _message: None,
}
