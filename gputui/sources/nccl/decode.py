"""Makes objects of the model from NCCL's answer in JSON; refuses whatever is not as NCCL documents it."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from gputui.model.collectives import (
    Communicator,
    CommunicatorRank,
    JobAnswer,
    MissingRank,
    ProcessPlace,
)
from gputui.model.printable import printable

T = TypeVar("T")

_LONGEST_TEXT = 256
_MOST_KINDS = 64
"""NCCL counts five kinds of collectives in 2.30."""


def decoded(data: bytes) -> JobAnswer:
    """The answer. Raises ValueError."""
    try:
        whole = json.loads(data.decode(errors="replace"))
    except RecursionError:
        message = "it is nested too deeply"
        raise ValueError(message) from None
    found = (_communicator(each) for each in _list(whole, "communicators"))
    return JobAnswer(
        nccl_version=_text(whole, "nccl_version"),
        communicators=tuple(each for each in found if each.size > 0),  # NCCL leaves empty ones while some are made
        timeouts=_number(_value(whole, "ras", dict), "timeouts_count"),
    )


def _communicator(entry: object) -> Communicator:
    return Communicator(
        key=f"{_text(entry, 'hash')} {_text(entry, 'secondary_hash')}",
        size=_number(entry, "size"),
        ranks=tuple(_rank(each) for each in _list(entry, "ranks")),
        missing=tuple(_missing(each) for each in _list(entry, "missing_ranks")),
    )


def _rank(entry: object) -> CommunicatorRank:
    status = _value(entry, "status", dict)
    counts = _value(entry, "collective_counts", dict)
    if len(counts) > _MOST_KINDS:
        message = "it counts too many kinds of collectives"
        raise ValueError(message)
    return CommunicatorRank(
        rank=_number(entry, "rank"),
        place=_place(entry),
        nvml_device=_number(entry, "nvml_dev"),
        init_state=_number(status, "init_state"),
        error=_number(status, "async_error"),
        is_ending=any(_value(status, name, bool) for name in ("finalize_called", "destroy_flag", "abort_flag")),
        counts=tuple((printable(name[:_LONGEST_TEXT]), _number(counts, name)) for name in counts),
    )


def _missing(entry: object) -> MissingRank:
    status = _value(entry, "status", dict)
    return MissingRank(
        rank=_number(entry, "rank"),
        place=_place(entry),
        nvml_device=_number(entry, "nvml_dev"),
        is_unresponsive=_value(status, "unresponsive", bool),
        is_dead=_value(status, "considered_dead", bool),
    )


def _place(entry: object) -> ProcessPlace:
    return ProcessPlace(_text(entry, "host"), _number(entry, "pid"))


def _value(entry: object, name: str, kind: type[T]) -> T:
    value = entry.get(name) if isinstance(entry, dict) else None
    if type(value) is not kind:
        message = f"{name} is missing, or no {kind.__name__}"
        raise ValueError(message)
    return value


def _list(entry: object, name: str) -> list[Any]:
    return _value(entry, name, list)


def _text(entry: object, name: str) -> str:
    return printable(_value(entry, name, str)[:_LONGEST_TEXT])


def _number(entry: object, name: str) -> int:
    value = _value(entry, name, int)
    if not -(2**31) <= value < 2**64:
        message = f"{name} is out of range"
        raise ValueError(message)
    return value
