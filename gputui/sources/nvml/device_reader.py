"""Reads one device from look to look: keeps its handle, its answers, and what is still known while it is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gputui.model.machine.device import Device
from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.reading_declaration import Cadence
from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, AbsentKind, value_of
from gputui.sources.nvml.binding import Handle, Nvml, Raw
from gputui.sources.nvml.calls import CALLS, LIFETIME_S, MEMORY, Call, FieldCalls
from gputui.sources.nvml.errors import UNSUPPORTED, CallError, Code, GpuLostError, NvmlError, lost_by
from gputui.sources.nvml.throttling import COUNTERS, Throttling, lasting

_RETRY_S = 2.8
"""After how many seconds a device that does not answer is tried again; a little less than 3."""

_IDENTITY = ("name", "uuid", "bus_id")
_WHOLE_ONLY = Absent("measured for the whole GPU, not for its MIG instances", AbsentKind.NOT_SUPPORTED)
_SHARES_HOST_MEMORY = Absent("this GPU has no memory of its own: it shares the host's", AbsentKind.NOT_SUPPORTED)
_OF_INSTANCES = {
    reading.field: CALLS[reading.field] for reading in READINGS if reading.of_instances and reading.field in CALLS
}
_OF_GPUS = {**CALLS, "throttled": COUNTERS}
_TAKEN_LATER = {reading.field: NOT_READ for reading in READINGS if reading.cadence is Cadence.MEAN}
_WATCHED = tuple(reading.field for reading in READINGS if reading.cadence is Cadence.WATCHED)
_CONSTANT = tuple(
    reading.field for reading in READINGS if reading.cadence is Cadence.ONCE and reading.field not in _IDENTITY
)
_CHANGING = tuple(reading.field for reading in READINGS if reading.cadence is not Cadence.ONCE)
_NOT_OF_INSTANCES = dict.fromkeys(
    (reading.field for reading in READINGS if not reading.of_instances and reading.field not in _IDENTITY), _WHOLE_ONLY
)


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
        self._readings: dict[str, Raw] = {}
        self._readings_hold_until: dict[str, float] = {}

    def readings(self, fields: Mapping[str, FieldCalls], now: float) -> dict[str, Raw]:
        """The reading of each field, absent with NVML's reason where a call failed; it holds as long as its answers."""
        holds_until = self._readings_hold_until
        for name, field in fields.items():
            if holds_until.get(name, now) <= now:
                self._readings[name], holds_until[name] = self._reading(field, now)
        return self._readings.copy()

    def _reading(self, field: FieldCalls, now: float) -> tuple[Raw, float]:
        """The reading, and until when it holds."""
        values, holds_until = [], LIFETIME_S[Cadence.ONCE]
        for call in field.calls:
            answer = self.answer(call, now)
            holds_until = min(holds_until, answer.expires_at)
            if answer.error is not None:
                return answer.error.absent, holds_until
            values.append(answer.value)
        return field.checked(field.convert(*values)), holds_until

    def answer(self, call: Call, now: float, *, of_now: bool = False) -> Answer:
        """The answer that holds at `now`, for which the call is made if needed. `of_now`: it must be of this look."""
        answer = self._answers.get(call)
        is_old = of_now and answer is not None and answer.error is None
        if answer is None or (answer.asked_at < now and (answer.expires_at <= now or is_old)):
            answer = self._answers[call] = self._make(call, now)
        if answer.error is not None and answer.error.code in UNSUPPORTED and call.otherwise is not None:
            return self.answer(call.otherwise, now, of_now=of_now)
        return answer

    def _make(self, call: Call, now: float) -> Answer:
        try:
            value = self._nvml.call_about(self._handle, call.function, *call.arguments)
        except CallError as error:
            is_final = error.code in UNSUPPORTED
            holds_s = LIFETIME_S[Cadence.ONCE] if is_final else min(call.lifetime_s, LIFETIME_S[Cadence.SELDOM])
            return Answer(None, error.with_traceback(None), now, now + holds_s)
        return Answer(value, None, now, now + call.lifetime_s)


class DeviceReader:
    """Reads one device, a whole GPU or a MIG instance.

    `device` is first what the caller knows of it. `open_handle` finds the device's handle, and is called again after
    the device was lost. `handle` and `answers` are None while the device is lost.
    """

    def __init__(self, nvml: Nvml, device: Device, open_handle: Callable[[], Handle]) -> None:
        self._nvml = nvml
        self._open_handle = open_handle
        self._retry_at = float("-inf")
        self.device = device
        self.handle: Handle = None
        self.answers: AnswerCache | None = None
        self._throttling = Throttling()

    def read(self, now: float) -> Device:
        """The device as it is now; while it is lost, what is known of it and why. Raises `NvmlGoneError`."""
        if self.answers is not None or now >= self._retry_at:
            try:
                self.device = self._read(now)
            except (GpuLostError, CallError) as error:
                self.lose(error, now)
        return self.device

    def lose(self, error: NvmlError, now: float) -> None:
        """Give the device up until the next try, and keep the readings that do not change."""
        self.handle = self.answers = None
        self._retry_at = now + _RETRY_S
        absent = error.absent
        readings: dict[str, Any] = dict.fromkeys(_CHANGING, absent)
        for field in _CONSTANT:
            last = getattr(self.device, field)
            readings[field] = absent if isinstance(last, Absent) else last
        self.device = self.device._replace(**readings, lost=lost_by(error), problems=())

    def _read(self, now: float) -> Device:
        if self.answers is None:
            self.handle = self._open_handle()
            self.answers, self._throttling = AnswerCache(self._nvml, self.handle), Throttling()
        is_instance = self.device.mig is not None
        readings = self.answers.readings(_OF_INSTANCES if is_instance else _OF_GPUS, now)
        for field in _IDENTITY:
            readings[field] = value_of(readings.get(field)) or getattr(self.device, field)
        readings |= _TAKEN_LATER
        if is_instance:
            return self.device._replace(**(readings | _NOT_OF_INSTANCES), lost=None)
        readings["throttled"] = self._throttling.between(readings["throttled"])
        readings["throttle_reasons"] = lasting(readings["throttle_reasons"], readings["throttled"])
        error = self.answers.answer(MEMORY, now).error
        shares_host_memory = error is not None and error.code == Code.NOT_SUPPORTED
        if shares_host_memory:
            readings["memory"] = _SHARES_HOST_MEMORY
        readings |= dict.fromkeys(_WATCHED, NOT_LOOKED_AT)
        readings |= {"shares_host_memory": shares_host_memory, "problems": ()}
        return self.device._replace(**readings, lost=None)
