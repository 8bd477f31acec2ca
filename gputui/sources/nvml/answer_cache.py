"""The answers of one device handle, each kept for as long as its call says."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.reading import Absent
from gputui.model.reading_declaration import Cadence
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.calls import LIFETIME_S, Call, FieldCalls
from gputui.sources.nvml.errors import UNSUPPORTED, CallError


class Answer(NamedTuple):
    """What NVML answered, or why it did not; `asked_at` and `expires_at` are in seconds of the clock."""

    value: Raw
    error: CallError | None
    asked_at: float
    expires_at: float


class AnswerCache:
    """What NVML says about the device of `handle`. Both methods raise `GpuLostError` and `NvmlGoneError`.

    An unsupported call is made once. Any other failure holds for a few seconds at most, even where a success would
    hold for ever. In one look (one value of `now`) no call is made twice.
    """

    def __init__(self, nvml: Nvml, handle: Handle) -> None:
        self._nvml = nvml
        self._handle = handle
        self._answers: dict[Call, Answer] = {}

    def reading(self, field: FieldCalls, now: float) -> Raw:
        """The field's reading, absent with NVML's reason where a call failed."""
        values = []
        for call in field.calls:
            answer = self.answer(call, now)
            if answer.error is not None:
                return Absent(answer.error.reason)
            values.append(answer.value)
        return field.convert(*values)

    def answer(self, call: Call, now: float) -> Answer:
        """The answer that holds at `now`; the call is made where there is none."""
        answer = self._answers.get(call)
        if answer is None or (answer.asked_at < now and answer.expires_at <= now):
            answer = self._answers[call] = self._make(call, now)
        if answer.error is not None and answer.error.code in UNSUPPORTED and call.otherwise is not None:
            return self.answer(call.otherwise, now)
        return answer

    def _make(self, call: Call, now: float) -> Answer:
        lifetime_s = LIFETIME_S[call.cadence]
        try:
            value = self._nvml.call_about(self._handle, call.function, *call.arguments)
        except CallError as error:
            is_final = error.code in UNSUPPORTED
            holds_s = LIFETIME_S[Cadence.ONCE] if is_final else min(lifetime_s, LIFETIME_S[Cadence.SELDOM])
            return Answer(None, error.with_traceback(None), now, now + holds_s)
        return Answer(value, None, now, now + lifetime_s)
