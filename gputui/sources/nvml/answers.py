"""The answers of one device handle, each kept for as long as its question says."""

from __future__ import annotations

from typing import NamedTuple

from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.codes import UNSUPPORTED, CallError
from gputui.sources.nvml.table import ONCE, SELDOM, Ask, Row


class Answer(NamedTuple):
    """What NVML answered, or why it did not; in seconds of the clock, when it was asked and until when that holds."""

    value: Raw
    error: CallError | None
    asked_at: float
    expires_at: float


class Answers:
    """What NVML says about the device of `handle`. `GpuLostError` and `NvmlGoneError` are raised by every question.

    An unsupported call is made once; another failure holds for a few seconds at most, also where a success would
    hold for ever. In one look (one value of `now`) no call is made twice.
    """

    def __init__(self, nvml: Nvml, handle: Handle) -> None:
        self._nvml = nvml
        self._handle = handle
        self._answers: dict[Ask, Answer] = {}

    def reading(self, row: Row, now: float) -> Raw:
        """The row's reading, absent with NVML's reason where a call failed."""
        values = []
        for ask in row.asks:
            answer = self.answer(ask, now)
            if answer.error is not None:
                return answer.error.absent
            values.append(answer.value)
        return row.convert(*values)

    def answer(self, ask: Ask, now: float) -> Answer:
        """The answer that holds now, asked for where there is none."""
        known = self._answers.get(ask)
        if known is None or (known.asked_at < now and known.expires_at <= now):
            known = self._answers[ask] = self._call(ask, now)
        if known.error is not None and known.error.code in UNSUPPORTED and ask.otherwise is not None:
            return self.answer(ask.otherwise, now)
        return known

    def _call(self, ask: Ask, now: float) -> Answer:
        try:
            value = self._nvml.call_about(self._handle, ask.function, *ask.arguments)
        except CallError as error:
            lifetime_s = ONCE if error.code in UNSUPPORTED else min(ask.lifetime_s, SELDOM)
            return Answer(None, error.with_traceback(None), now, now + lifetime_s)
        return Answer(value, None, now, now + ask.lifetime_s)
