"""NVLink: how many links of a device are up, and the data rates of all together."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.device import NvLinks
from gputui.model.reading import Absent, Reading
from gputui.model.reading_declaration import Cadence
from gputui.sources.nvml.calls import Call, field_value
from gputui.sources.nvml.device_reader import AnswerCache
from gputui.sources.nvml.errors import UNSUPPORTED, Code

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

    def read(self, answers: AnswerCache, now: float) -> Reading[NvLinks]:
        """The links now; the rates are None at the first look and where NVML does not count."""
        answer = answers.answer(_COUNT, now)
        count = answer.error.absent if answer.error else field_value(answer.value[0])
        if isinstance(count, Absent):
            return count
        if not count:
            return _NO_LINKS
        states = [
            answers.answer(Call("nvmlDeviceGetNvLinkState", (link,)).at(Cadence.SELDOM), now)
            for link in range(int(count))
        ]
        unknown = [state.error for state in states if state.error and state.error.code not in _NO_LINK]
        if unknown:  # a link that cannot be read is not one that is down
            return unknown[0].absent
        link_states = [state.value for state in states if state.error is None]
        if not link_states:
            return _NO_LINKS
        last, self._last = self._last, _traffic(answers, now)
        tx, rx = _rates(last, self._last)
        return NvLinks(link_states.count(1), len(link_states), tx, rx)

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
