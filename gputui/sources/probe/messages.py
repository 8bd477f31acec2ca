"""A probe's messages as objects of the model."""

from __future__ import annotations

from collections.abc import Callable

from gputui.explain.memory.map_faults import without_faulty_map
from gputui.explain.moment.probe_state import Message
from gputui.model.attached.target import ActionResult, Garbage, Greeting, Look, Mark, Statistics
from gputui.sources.probe.decode import decode
from gputui.sources.probe.references_message import references_part
from gputui.sources.probe.step_message import recorded_traces

_MESSAGES: dict[str, type[Message]] = {
    "greeting": Greeting,
    "statistics": Statistics,
    "look": Look,
    "mark": Mark,
    "action_result": ActionResult,
    "garbage": Garbage,
}
_READERS: dict[str, Callable[[dict[str, object]], Message]] = {
    "step": recorded_traces,
    "references": references_part,
}


def message_of(message: dict[str, object]) -> Message | None:
    """A probe's message as an object of the model, None for an unknown type; raises DecodeError if it is malformed.

    A map that contradicts itself is left out.
    """
    if reader := _READERS.get(str(message["type"])):
        return reader(message)
    kind = _MESSAGES.get(str(message["type"]))
    decoded = None if kind is None else decode(kind, message)
    if isinstance(decoded, Look):
        return without_faulty_map(decoded)
    return without_faulty_map(decoded) if isinstance(decoded, ActionResult) else decoded
