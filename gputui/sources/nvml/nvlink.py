"""NVLink: how many links of a device are active, and the sum of their data rates."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.machine.device import NvLinks
from gputui.model.machine.device_readings import READING_OF
from gputui.model.machine.reading_declaration import Cadence
from gputui.model.reading import Absent, Reading
from gputui.sources.nvml.calls import LIFETIME_S, Call, field_value
from gputui.sources.nvml.device_reader import AnswerCache
from gputui.sources.nvml.errors import UNSUPPORTED, Code

_CHECKED = READING_OF["nvlinks"].checked
_ALL_LINKS = 0xFFFFFFFF
_COUNT = Call("nvmlDeviceGetFieldValues", ((91,),))
"""NVML_FI_DEV_NVLINK_LINK_COUNT."""
_TRAFFIC = Call("nvmlDeviceGetFieldValues", (((138, _ALL_LINKS), (139, _ALL_LINKS)),)).at(Cadence.EACH_LOOK)
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX: despite the name, KiB since the driver was loaded."""
_NO_LINK = {*UNSUPPORTED, Code.INVALID_ARGUMENT}
"""The errors of a link that the board does not have."""
_NO_LINKS = Absent("this device has no NVLinks")


class _Traffic(NamedTuple):
    time: float
    tx_bytes: float
    rx_bytes: float


class NvLinkReader:
    """Reads the links of one device; rates are those between one look and the next."""

    def __init__(self) -> None:
        self._last: _Traffic | None = None
        self._counted: Reading[NvLinks] = _NO_LINKS
        self._count_holds_until = float("-inf")

    def count(self, answers: AnswerCache, now: float) -> Reading[NvLinks]:
        """How many links there are and how many are active, without rates; read seldom, as it takes up to 18 calls."""
        if now >= self._count_holds_until:
            self._count_holds_until = now + LIFETIME_S[Cadence.RARELY]
            self._counted = self._links(answers, now, Cadence.RARELY)
        return self._counted

    def read(self, answers: AnswerCache, now: float) -> Reading[NvLinks]:
        """The links now; the rates are None at the first look and where NVML does not count."""
        links = self._links(answers, now, Cadence.SELDOM)
        if isinstance(links, Absent):
            return links
        last, self._last = self._last, _traffic(answers, now)
        tx, rx = _rates(last, self._last)
        return _CHECKED(links._replace(tx_bytes_per_s=tx, rx_bytes_per_s=rx))

    @staticmethod
    def _links(answers: AnswerCache, now: float, cadence: Cadence) -> Reading[NvLinks]:
        answer = answers.answer(_COUNT, now)
        count = answer.error.absent if answer.error else field_value(answer.value[0])
        if isinstance(count, Absent):
            return count
        if not count:
            return _NO_LINKS
        possible = _CHECKED(NvLinks(0, int(count), None, None))
        if isinstance(possible, Absent):
            return possible
        states = [
            answers.answer(Call("nvmlDeviceGetNvLinkState", (link,)).at(cadence), now) for link in range(int(count))
        ]
        unknown = [state.error for state in states if state.error and state.error.code not in _NO_LINK]
        if unknown:  # a link that cannot be read is not one that is down
            return unknown[0].absent
        link_states = [state.value for state in states if state.error is None]
        if not link_states:
            return _NO_LINKS
        return _CHECKED(NvLinks(link_states.count(1), len(link_states), None, None))

    def rest(self) -> None:
        """Forget the last counters while nobody looks: the next look has no rates, like the first."""
        self._last = None


def _traffic(answers: AnswerCache, now: float) -> _Traffic | None:
    answer = answers.answer(_TRAFFIC, now)
    if answer.error is not None:
        return None
    tx_kib, rx_kib = (field_value(value) for value in answer.value)
    if isinstance(tx_kib, Absent) or isinstance(rx_kib, Absent):
        return None
    return _Traffic(now, tx_kib * 1024, rx_kib * 1024)


def _rates(last: _Traffic | None, this: _Traffic | None) -> tuple[float | None, float | None]:
    if last is None or this is None or this.time <= last.time or this.tx_bytes < last.tx_bytes:
        return None, None  # the counters start at 0 when the driver is loaded again
    seconds = this.time - last.time
    return (this.tx_bytes - last.tx_bytes) / seconds, (this.rx_bytes - last.rx_bytes) / seconds
