"""The probe's message with a part of all references, whose columns are base64 of numbers in this machine's order."""

from __future__ import annotations

import binascii
from array import array
from dataclasses import dataclass

from gputui.model.attached.target import ReferencesPart
from gputui.sources.probe.decode import DecodeError, decode


@dataclass(frozen=True, slots=True)
class _Fields:
    next: tuple[int, int, int, int] | None
    reason: str
    is_broken: bool
    stop_ms: float


def references_part(message: dict[str, object]) -> ReferencesPart:
    """The part in a message; raises DecodeError if it is malformed."""
    fields = decode(_Fields, message)
    part = ReferencesPart(
        addresses=_column(message, "addresses", "Q"),
        types=_column(message, "types", "Q"),
        counts=_column(message, "counts", "q"),
        lengths=_column(message, "lengths", "I"),
        referents=_column(message, "referents", "Q"),
        tensors=_column(message, "tensors", "I"),
        nodes=_column(message, "nodes", "I"),
        next=fields.next,
        reason=fields.reason,
        is_broken=fields.is_broken,
        stop_ms=fields.stop_ms,
    )
    objects = len(part.addresses)
    is_whole = len(part.types) == len(part.counts) == len(part.lengths) == objects and sum(part.lengths) == len(
        part.referents
    )
    if not is_whole or any(number >= objects for number in (*part.tensors, *part.nodes)):
        raise DecodeError("references whose columns do not fit each other")
    return part


def _column(message: dict[str, object], name: str, kind: str) -> array[int]:
    column = array(kind)
    text = message.get(name, "")
    try:
        if not isinstance(text, str):
            raise TypeError
        column.frombytes(binascii.a2b_base64(text))
    except (TypeError, ValueError) as error:
        cause = f"{name} is no column of numbers"
        raise DecodeError(cause) from error
    return column
