"""The allocator's settings as people write them (`PYTORCH_ALLOC_CONF`), and the device that the memory comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gputui.errors import UsageError, did_you_mean
from gputui.model.attached.allocator import AllocatorSettings
from gputui.protocol.allocator_settings import LARGE_PAGE_BYTES, parse_settings
from gputui.units import MIB

INTERVALS = 16
"""PyTorch's size classes of `roundup_power2_divisions`: below 2 MiB, 4 MiB, and so on."""

DEFAULTS = AllocatorSettings("native", LARGE_PAGE_BYTES, None, is_expandable=False, values=(), roundup_divisions=())


@dataclass(frozen=True, slots=True)
class Device:
    """How much PyTorch can reserve at most (`available_bytes`, None for no limit), and the device's memory in all.

    `fraction` is the argument of `torch.cuda.set_per_process_memory_fraction`, a share of `total_bytes`.
    """

    available_bytes: int | None = None
    total_bytes: int | None = None
    fraction: float | None = None

    @property
    def allowed_bytes(self) -> int | None:
        """The limit that the memory fraction sets, None if there is none."""
        if self.fraction is None or self.fraction >= 1.0 or self.total_bytes is None:
            return None
        return int(self.fraction * self.total_bytes)


def with_settings(settings: AllocatorSettings, words: str) -> AllocatorSettings:
    """`settings` changed by "NAME:VALUE,NAME:VALUE", written as in PYTORCH_ALLOC_CONF. Raises UsageError."""
    changed = pairs(words)
    for name, value in changed.items():
        change = CHANGES.get(name)
        if change is None:
            cause = f"The allocator has no setting {name!r} that gputui can replay."
            raise UsageError(cause, did_you_mean(name, CHANGES) or f"The settings are: {', '.join(CHANGES)}.")
        settings = change(settings, name, value)
    values = {**dict(settings.values), **changed}
    return replace(settings, values=tuple(values.items()))


def pairs(words: str) -> dict[str, str]:
    """Names and values in "NAME:VALUE,NAME:VALUE"; a value in brackets may hold commas. Raises UsageError."""
    values = parse_settings(words)
    for name, value in values.items():
        if not value:
            cause = f"{name!r} is no setting with a value."
            raise UsageError(cause, "Write NAME:VALUE, such as expandable_segments:True.")
    return values


def _expandable(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    if value not in ("True", "False"):
        raise _wrong(name, value, "True or False")
    return replace(settings, is_expandable=value == "True")


def _max_split(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    least = settings.large_page_bytes // MIB
    return replace(settings, max_split_bytes=_mebibytes(name, value, least))


def _non_split_rounding(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    least = settings.large_page_bytes // MIB
    return replace(settings, max_non_split_rounding_bytes=_mebibytes(name, value, least))


def _large_segment(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    return replace(settings, large_page_bytes=_mebibytes(name, value, 11))


def _garbage_collection(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    try:
        threshold = float(value)
    except ValueError:
        threshold = 0.0
    if not 0.0 < threshold < 1.0:
        raise _wrong(name, value, "a number between 0 and 1")
    return replace(settings, garbage_collection_threshold=threshold)


def _roundup(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    if value.startswith("["):
        return replace(settings, roundup_divisions=_listed_divisions(name, value))
    return replace(settings, roundup_divisions=(_power_of_two(name, value),) * INTERVALS)


def _listed_divisions(name: str, value: str) -> tuple[int, ...]:
    """`[64:8,256:4,>:1]`: the first key is for smaller sizes too, ">" for all larger ones; sizes between keys get 0."""
    divisions = [0] * INTERVALS
    last = -1
    for item in value.strip("[]").split(","):
        key, _, words = item.partition(":")
        count = _power_of_two(name, words.strip())
        if key.strip() == ">":
            divisions[last + 1 :] = [count] * (INTERVALS - last - 1)
            break
        index = min(INTERVALS - 1, _power_of_two(name, key.strip()).bit_length() - 1)
        first = 0 if last < 0 else index
        divisions[first : index + 1] = [count] * (index + 1 - first)
        last = index
    return tuple(divisions)


def _power_of_two(name: str, value: str) -> int:
    number = int(value) if value.isdecimal() else 0
    if number < 1 or number & (number - 1):
        raise _wrong(name, value, "a power of two, or a list such as [64:8,256:4,>:1]")
    return number


def _mebibytes(name: str, value: str, least: int) -> int:
    number = int(value) if value.isdecimal() else 0
    if number < least:
        raise _wrong(name, value, f"a whole number of MiB, {least} or more")
    return number * MIB


def _wrong(name: str, value: str, form: str) -> UsageError:
    cause = f"{name} cannot be {value!r}."
    return UsageError(cause, f"It is {form}.")


CHANGES: dict[str, Callable[[AllocatorSettings, str, str], AllocatorSettings]] = {
    "expandable_segments": _expandable,
    "max_split_size_mb": _max_split,
    "max_non_split_rounding_mb": _non_split_rounding,
    "roundup_power2_divisions": _roundup,
    "garbage_collection_threshold": _garbage_collection,
    "large_segment_size_mb": _large_segment,
}
"""What `--set` can change, by PyTorch's name."""
