"""A peak in a form small enough for git, and what has changed since it was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputui.errors import UsageError
from gputui.explain.check.peak import Holder, Peak

SCHEMA = "gputui.check-baseline/1"


class Part(NamedTuple):
    """Memory at a peak, by category, place and operation: `layer` is a number in the list `module`, or None."""

    category: str
    module: str
    layer: int | None
    operation: str

    @property
    def place(self) -> str:
        """The path of the layer, or of the module; "" for what no module made."""
        return self.module if self.layer is None else f"{self.module}.{self.layer}".lstrip(".")


Parts = Mapping[Part, int]
"""Bytes of each part."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The peak of a target from a baseline file, with the version of PyTorch that it was computed with."""

    torch: str
    reserved_bytes: int
    allocated_bytes: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class Change:
    """A layer, or a module, that holds more or less at the peak than its baseline says.

    `operations` hold more now, by so many bytes, the largest difference first; `holder` is the largest of the first.
    """

    category: str
    module: str
    bytes_before: int
    bytes_now: int
    operations: tuple[tuple[str, int], ...]
    holder: Holder | None

    @property
    def bytes_more(self) -> int:
        """Negative if it holds less."""
        return self.bytes_now - self.bytes_before


def parts_of(peak: Peak) -> dict[Part, int]:
    """The bytes of each part of a peak."""
    sums: Counter[Part] = Counter()
    for holder in peak.holders:
        sums[_part(holder)] += holder.bytes
    return dict(sums)


def _part(holder: Holder) -> Part:
    return Part(holder.category, *holder.layer, holder.operation)


def changes(before: Baseline, peak: Peak) -> tuple[Change, ...]:
    """The differences of a peak from its baseline, the largest growth first."""
    now = parts_of(peak)
    places: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for part in {**before.parts, **now}:
        sizes = before.parts.get(part, 0), now.get(part, 0)
        if sizes[0] != sizes[1]:
            places.setdefault((part.category, part.place), {})[part.operation] = sizes
    found = [_change(category, place, by, peak) for (category, place), by in places.items()]
    return tuple(sorted(found, key=lambda change: (-change.bytes_more, change.category, change.module)))


def _change(category: str, place: str, by: Mapping[str, tuple[int, int]], peak: Peak) -> Change:
    grown = sorted(((name, now - then) for name, (then, now) in by.items() if now > then), key=lambda one: -one[1])
    holders = [
        holder
        for holder in peak.holders
        if grown and (holder.category, holder.operation) == (category, grown[0][0]) and _part(holder).place == place
    ]
    return Change(
        category,
        place,
        sum(then for then, _ in by.values()),
        sum(now for _, now in by.values()),
        tuple(grown),
        holders[0] if holders else None,
    )


def baseline_of(peak: Peak) -> Baseline:
    """The baseline that is kept of a peak."""
    return Baseline(peak.torch, peak.reserved_bytes, peak.allocated_bytes, parts_of(peak))


def baseline_text(baselines: Mapping[str, Baseline]) -> str:
    """The file: JSON with a line for each part; layers of a list with equal bytes share a line."""
    targets = [
        f"  {json.dumps(name)}: {{\n"
        f'    "torch": {json.dumps(baseline.torch)},\n'
        f'    "peak_reserved_bytes": {baseline.reserved_bytes},\n'
        f'    "peak_allocated_bytes": {baseline.allocated_bytes},\n'
        f'    "parts": [\n{_rows_text(baseline.parts)}\n    ]\n'
        "  }"
        for name, baseline in sorted(baselines.items())
    ]
    return f'{{"schema": "{SCHEMA}", "targets": {{\n' + ",\n".join(targets) + "\n}}\n"


def _rows_text(parts: Parts) -> str:
    return ",\n".join(f"      {json.dumps(row)}" for row in _rows(parts))


def _rows(parts: Parts) -> Iterator[dict[str, Any]]:
    """One row for all parts that differ only in the number of the layer; a part of no layer has its own."""
    layers: dict[tuple[str, str, str, int, bool], list[int]] = {}
    for part in sorted(parts, key=lambda part: (part.category, part.module, part.layer or 0, part.operation)):
        key = part.category, part.module, part.operation, parts[part], part.layer is None
        layers.setdefault(key, []).append(part.layer or 0)
    for (category, module, operation, size_bytes, is_of_no_layer), numbers in layers.items():
        row = {"category": category, "module": module, "operation": operation, "bytes": size_bytes}
        yield row if is_of_no_layer else {**row, "layers": _ranges(numbers)}


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """The first and the last number of each run: [[0, 3], [5, 11]]."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def baselines_of(text: str, path: str) -> dict[str, Baseline]:
    """The baselines in a file, by the names of their targets. Raises UsageError for a file that holds none."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            cause = f"{path} has the schema {document['schema']!r}, and this gputui reads {SCHEMA}."
            raise UsageError(cause, "Make it again with --update.")
        return {str(name): _baseline(target) for name, target in document["targets"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        cause = f"{path} is not a baseline of gputui check."
        raise UsageError(cause, "Make one with --update, under a name that is free.") from None


def _baseline(target: Mapping[str, Any]) -> Baseline:
    parts: dict[Part, int] = {}
    for row in target["parts"]:
        numbers = (
            [number for first, last in row["layers"] for number in _range(first, last)] if "layers" in row else [None]
        )
        for number in numbers:
            parts[Part(str(row["category"]), str(row["module"]), number, str(row["operation"]))] = int(row["bytes"])
    return Baseline(
        str(target["torch"]), int(target["peak_reserved_bytes"]), int(target["peak_allocated_bytes"]), parts
    )


_LAYERS_AT_MOST = 100_000


def _range(first: int, last: int) -> range:
    if not 0 <= first <= last < _LAYERS_AT_MOST:
        raise ValueError
    return range(first, last + 1)
