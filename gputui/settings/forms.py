"""The forms that a setting's value can have.

A form takes the raw value (text from the environment and from flags, any TOML value from the file) and returns the
checked value, or raises `WrongValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from gputui.errors import did_you_mean

Form = Callable[[object], Any]

SHORTEST_INTERVAL_S = 0.1
LONGEST_INTERVAL_S = 3600.0
LEAST_DURATION_S = 1.0
LONGEST_DURATION_S = 365 * 86400.0
SHORTEST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.1
"""As in `gputui.protocol.pauses`, which is not imported here because its import would delay the first frame."""

_TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_SECONDS_IN = {"ms": 0.001, "min": 60.0, "s": 1.0, "h": 3600.0, "d": 86400.0}


class WrongValueError(ValueError):
    """`expected` completes the sentence "NAME should be ..."; `remedy` is another sentence, or empty."""

    def __init__(self, expected: str, remedy: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.remedy = remedy


def seconds(raw: object) -> float:
    """A time: a number of seconds, or text with a unit such as "500ms", "2s", "1min"."""
    expected = "a time from 0.1 to 3600 seconds, such as 2 or 500ms"
    return _time_between(SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S, raw, expected)


def duration(raw: object) -> float:
    """How long something lasts, in seconds, such as "90s", "30min", "8h", "7d"."""
    return _time_between(LEAST_DURATION_S, LONGEST_DURATION_S, raw, "a time from 1s to 365d, such as 30min or 8h")


def pause(raw: object) -> float | None:
    """How long a look may stop a program, in seconds, or None for "off"."""
    if str(raw).strip().lower() == "off":
        return None
    return _time_between(SHORTEST_PAUSE_S, LONGEST_PAUSE_S, raw, "a time from 1ms to 100ms, or off")


def _time_between(shortest_s: float, longest_s: float, raw: object, expected: str) -> float:
    text = "" if isinstance(raw, bool) else str(raw).strip().lower()
    unit = next((unit for unit in _SECONDS_IN if text.endswith(unit)), "")
    try:
        value = float(text.removesuffix(unit)) * _SECONDS_IN.get(unit, 1.0)
    except ValueError:
        raise WrongValueError(expected) from None
    if not shortest_s <= value <= longest_s:  # refuses nan, too
        raise WrongValueError(expected)
    return value


def truth(raw: object) -> bool:
    """True or false: a boolean in the file, a word in the environment."""
    expected = "true or false"
    value = raw if isinstance(raw, bool) else _TRUTH.get(str(raw).strip().lower())
    if value is None:
        raise WrongValueError(expected)
    return value


def whole(lowest: int, highest: int) -> Form:
    """A whole number in a range, both ends included."""
    expected = f"a whole number from {lowest} to {highest}"

    def read(raw: object) -> int:
        try:
            value = int(str(raw))  # as text, because int() accepts True and 1.5
        except ValueError:
            raise WrongValueError(expected) from None
        if not lowest <= value <= highest:
            raise WrongValueError(expected)
        return value

    return read


def choice(known: Collection[str]) -> Form:
    """One of the `known` words."""
    expected = f"one of {', '.join(known)}"

    def read(raw: object) -> str:
        text = str(raw).strip().lower()
        if text not in known:
            raise WrongValueError(expected, did_you_mean(text, known))
        return text

    return read


def choices(known: Collection[str]) -> Form:
    """Some of the `known` words, in the order given: a list in the file, separated by commas elsewhere."""
    read_one = choice(known)

    def read(raw: object) -> tuple[str, ...]:
        items = raw if isinstance(raw, list) else str(raw).split(",")
        if not items:
            raise WrongValueError(f"a list of at least one of {', '.join(known)}")
        return tuple(read_one(item) for item in items)

    return read
