"""One look at an attached process as text for people: where its memory is, why, and which tensors are the largest."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence

from gputui.explain.advice import findings_of
from gputui.explain.advice.names import counted, family, listed
from gputui.explain.owners import grouped, storage_bytes
from gputui.explain.parts import Part, parts_of
from gputui.model.analysis import TensorGroup
from gputui.model.finding import Finding, Weight
from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.reading import value_of
from gputui.model.target import Greeting
from gputui.model.tensors import HOST, Category
from gputui.output import BOLD, NORMAL, RED, YELLOW, cut
from gputui.units import format_bytes

NARROWEST, WIDEST = 60, 100
GROUPS_SHOWN = 8
SIGNS = {Weight.PROBLEM: ("!", RED), Weight.ADVICE: ("*", YELLOW), Weight.FACT: ("-", "")}
"""By weight, the sign before a finding and its colour on a terminal."""

OUTSIDE_PROCESS = {"others", "driver", "free"}
OUTSIDE_TORCH = {*OUTSIDE_PROCESS, "outside"}
LIVE = {*(category.value for category in Category), "rounding", "allocated"}
NOTES = {"stuck": "free, but a live block shares its segment", "releasable": "empty_cache() would return it"}


def report(moment: TargetMoment, problems: Sequence[str], width: int, *, in_color: bool) -> str:
    """The answer in the first lines, then a section each for memory, findings and tensors; `problems` are sentences."""
    page = _Page(max(NARROWEST, min(width, WIDEST)), in_color=in_color)
    devices, findings = moment.held_devices, findings_of(moment)
    page.line(_introduction(moment.greeting, page.width))
    for summary in [_summary(device, page.width) for device in devices] or ["It holds no GPU memory."]:
        page.line(summary)
    for device, finding in findings[:1]:
        page.finding(_place(moment, device), finding)
    for device in devices:
        _memory(page, device)
    _why(page, moment, findings)
    for device in devices:
        _tensors(page, f"cuda:{device.index}", device.layout.groups if device.layout else _groups(moment, device.index))
    if not devices:
        _tensors(page, "host memory", _groups(moment, HOST))
    page.section("Look")
    for sentence in (*_cost(moment), *_host(moment), *problems, *(problem.text for problem in moment.problems)):
        page.wrapped(sentence, "  ")
    return page.text


class _Page:
    """Lines of at most `width` columns, in ASCII apart from names."""

    def __init__(self, width: int, *, in_color: bool) -> None:
        self.width = width
        self._in_color = in_color
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str, color: str = "") -> None:
        text = cut(text.rstrip(), self.width)
        self._lines.append(f"{color}{text}{NORMAL}" if self._in_color and color else text)

    def section(self, title: str) -> None:
        self.line("")
        self.line(title, BOLD)

    def wrapped(self, text: str, first: str, rest: str = "", color: str = "") -> None:
        """A paragraph whose first line begins with `first`, the others with `rest` (as wide as `first` by default)."""
        for line in textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=rest or " " * len(first),
            break_on_hyphens=False,
        ):
            self.line(line, color)

    def finding(self, place: str, finding: Finding, *, with_evidence: bool = False) -> None:
        sign, color = SIGNS[finding.weight]
        self.wrapped(f"{place}{finding.title}", f"{sign} ", color=color)
        if with_evidence:
            for sentence in finding.evidence:
                self.wrapped(sentence, "    ")
            if finding.remedy:
                self.wrapped(finding.remedy, "  > ")


def _introduction(greeting: Greeting, width: int) -> str:
    rank = f", rank {greeting.rank} of {greeting.world_size}" if greeting.rank is not None else ""
    torch = f"PyTorch {greeting.torch}" if greeting.torch else "no PyTorch yet"
    end = f"  ({torch}, Python {greeting.python}{rank})"
    return cut(f"{greeting.pid}  {greeting.command}", max(20, width - len(end))) + end


def _place(moment: TargetMoment, device: DeviceMoment) -> str:
    return f"cuda:{device.index}: " if len(moment.held_devices) > 1 else ""


def _summary(device: DeviceMoment, width: int) -> str:
    """What the process holds and its largest parts, on one line."""
    parts = {part.key: part for part in parts_of(device)}
    live = sum(part.bytes for key, part in parts.items() if key in LIVE)
    sizes = [(part.bytes, part.name) for key, part in parts.items() if key not in OUTSIDE_PROCESS | LIVE]
    used = value_of(device.driver.process_used_bytes)
    text = f"cuda:{device.index}  {format_bytes(used or device.statistics.reserved_bytes)}"
    text += " used: " if used else " reserved: "
    separator = ""
    for size_bytes, name in sorted([(live, "tensors"), *sizes], reverse=True):
        piece = f"{separator}{format_bytes(size_bytes)} {name}"
        if size_bytes and len(text) + len(piece) <= width:
            text += piece
            separator = ", "
    return text


def _memory(page: _Page, device: DeviceMoment) -> None:
    """The parts of a device's memory, as on the Memory screen."""
    driver, counters = device.driver, device.statistics
    total, used = value_of(driver.device_total_bytes), value_of(driver.process_used_bytes)
    gpu = f", GPU {driver.nvml_index}" if driver.nvml_index is not None else ""
    page.section(f"Memory of cuda:{device.index}{gpu}{f', {format_bytes(total)}' if total else ''}")
    parts = parts_of(device)
    whole = used or counters.reserved_bytes

    def row(depth: int, name: str, size_bytes: int, note: str = "") -> None:
        share = f"{size_bytes / whole:6.1%}" if whole else ""
        page.line(f"{'  ' * depth}{name}".ljust(31) + f"{format_bytes(size_bytes):>9}  {share}  {note}")

    def rows(depth: int, some: Iterable[Part]) -> None:
        for part in some:
            row(depth, part.name, part.bytes, NOTES.get(part.key, ""))

    if used:
        row(1, "used by this process", used)
    rows(2, (part for part in parts if part.key == "outside"))
    row(2, "reserved by PyTorch", counters.reserved_bytes, f"peak {format_bytes(counters.peak_reserved_bytes)}")
    row(3, "allocated", counters.allocated_bytes, f"peak {format_bytes(counters.peak_allocated_bytes)}")
    inside = [part for part in parts if part.key not in OUTSIDE_TORCH]
    rows(4, (part for part in inside if part.key in LIVE and part.key != "allocated"))
    rows(3, (part for part in inside if part.key not in LIVE))
    for part in parts:
        if part.key in OUTSIDE_PROCESS:
            page.line(f"  {part.name}".ljust(31) + f"{format_bytes(part.bytes):>9}")


def _why(page: _Page, moment: TargetMoment, findings: Sequence[tuple[DeviceMoment, Finding]]) -> None:
    """Every finding with its evidence and remedy, as on the Why screen."""
    if findings:
        page.section("Why")
    for device, finding in findings:
        page.finding(_place(moment, device), finding, with_evidence=True)


def _groups(moment: TargetMoment, device: int) -> tuple[TensorGroup, ...]:
    """The groups of storages, where the allocator has no map."""
    inventory = moment.look.inventory if moment.look else None
    return grouped(storage_bytes(inventory, device)) if inventory else ()


def _tensors(page: _Page, where: str, groups: Sequence[TensorGroup]) -> None:
    """The largest groups of tensors that look alike, with their names."""
    total = sum(group.bytes for group in groups)
    if not total:
        return
    named = sum(group.bytes for group in groups if group.category is not Category.UNATTRIBUTED)
    page.section(f"Tensors on {where}: {named / total:.1%} of {format_bytes(total)} has a known owner")
    for group in groups[:GROUPS_SHOWN]:
        page.line(f"{format_bytes(group.bytes):>11}  {_description(group)}")
        names = listed(map(family, sorted(group.names, key=len)))
        if group.dtype and names:
            page.wrapped(names, " " * 15)
    rest = groups[GROUPS_SHOWN:]
    if rest:
        size = format_bytes(sum(group.bytes for group in rest))
        page.line(f"{size:>11}  in {counted(len(rest), 'smaller group')}")


def _description(group: TensorGroup) -> str:
    if group.dtype:
        return f"{group.count:,} x {group.shape} {group.dtype} {group.category.words}"
    return f"{counted(group.count, 'block')} of {listed(group.names) or 'unknown owners'}"


def _cost(moment: TargetMoment) -> list[str]:
    if moment.look is None:
        return []
    at = time.strftime("%H:%M:%S", time.localtime(moment.look_time))
    cost = moment.look.cost
    paused = f"Taken at {at}. The program paused for {cost.pause_ms:.1f} ms;"
    return [f"{paused} the probe used {cost.probe_cpu_ms:.1f} ms of processor time."]


def _host(moment: TargetMoment) -> list[str]:
    """The process's host memory, in one sentence."""
    host = moment.host
    readings = ((host.rss_bytes, "resident"), (host.tensor_bytes, "in tensors"), (host.pinned_bytes, "pinned"))
    sizes = [f"{format_bytes(size)} {what}" for reading, what in readings if (size := value_of(reading))]
    return [f"Host memory: {', '.join(sizes)}."] if sizes else []
