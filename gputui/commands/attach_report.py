"""One look at an attached process as text for people: where its memory is, why, and which tensors are the largest."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence

from gputui.explain.advice import findings_of
from gputui.explain.advice.names import counted, family
from gputui.explain.advice.stuck import UNKNOWN
from gputui.explain.owners import block_bytes, storage_bytes
from gputui.explain.parts import Part, parts_of
from gputui.model.analysis import Owner
from gputui.model.finding import Finding, Weight
from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.reading import Absent, value_of
from gputui.model.target import Greeting
from gputui.model.tensors import HOST, Category
from gputui.output import BOLD, NORMAL, RED, YELLOW, cut
from gputui.units import format_bytes

NARROWEST, WIDEST = 60, 100
FAMILIES_SHOWN = 10
SIGNS = {Weight.PROBLEM: ("!", RED), Weight.ADVICE: ("*", YELLOW), Weight.FACT: ("-", "")}
"""By weight, the sign before a finding and its colour on a terminal."""

OUTSIDE_PROCESS = {"others", "driver", "free"}
OUTSIDE_TORCH = {*OUTSIDE_PROCESS, "outside"}
LIVE = {*(category.value for category in Category), "rounding", "allocated"}
NOTES = {"stuck": "free, beside live blocks", "releasable": "empty_cache() would return it"}


def report(moment: TargetMoment, problems: Sequence[str], width: int, *, in_color: bool) -> str:
    """The answer in the first lines, then a section each for memory, findings and tensors; `problems` are sentences."""
    page = _Page(max(NARROWEST, min(width, WIDEST)), in_color=in_color)
    devices, findings = moment.held_devices, findings_of(moment)
    page.line(_introduction(moment.greeting))
    for summary in [_summary(device, page.width) for device in devices] or ["It holds no GPU memory."]:
        page.line(summary)
    named = [(f"cuda:{device.index}: " if len(devices) > 1 else "", finding) for device, finding in findings]
    for device_name, finding in named[:1]:
        page.finding(device_name, finding)
    for device in devices:
        _memory(page, device)
    _why(page, named)
    for place in devices or (None,):
        _tensors(page, moment, place)
    page.section("This look")
    unknown = [sentence for device in devices for sentence in _unknown(device)]
    notes = [*problems, *(problem.text for problem in moment.problems)]
    for sentence in (*_cost(moment), *_host(moment), *unknown, *notes):
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

    def wrapped(self, text: str, first: str, color: str = "") -> None:
        """A paragraph whose first line begins with `first`; the others are indented as far."""
        for line in textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_on_hyphens=False,
        ):
            self.line(line, color)

    def finding(self, device_name: str, finding: Finding, *, with_evidence: bool = False) -> None:
        sign, color = SIGNS[finding.weight]
        self.wrapped(f"{device_name}{finding.title}", f"{sign} ", color=color)
        if with_evidence:
            for sentence in finding.evidence:
                self.wrapped(sentence, "    ")
            if finding.remedy:
                self.wrapped(finding.remedy, "  > ")


def _introduction(greeting: Greeting) -> str:
    """PID, rank and command, without the folder of the interpreter."""
    program, space, arguments = greeting.command.partition(" ")
    rank = f"rank {greeting.rank} of {greeting.world_size}  " if greeting.rank is not None else ""
    return f"{greeting.pid}  {rank}{program.rpartition('/')[2]}{space}{arguments}"


def _summary(device: DeviceMoment, width: int) -> str:
    """What the process holds and its largest parts, on one line."""
    parts = {part.key: part for part in parts_of(device)}
    live = sum(part.bytes for key, part in parts.items() if key in LIVE)
    sizes = [(part.bytes, part.name) for key, part in parts.items() if key not in OUTSIDE_PROCESS | LIVE]
    used = _used_bytes(device)
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
    total, used = value_of(driver.device_total_bytes), _used_bytes(device)
    gpu = f", GPU {driver.nvml_index}" if driver.nvml_index is not None else ""
    page.section(f"Memory of cuda:{device.index}{gpu}{f', {format_bytes(total)}' if total else ''}")
    parts = parts_of(device)
    whole = used or counters.reserved_bytes

    def row(depth: int, name: str, size_bytes: int, note: str = "") -> None:
        share = f"{size_bytes / whole:6.1%}" if whole else ""
        page.line(
            f"{'  ' * (depth if used else depth - 1)}{name}".ljust(31)
            + f"{format_bytes(size_bytes):>9}  {share}  {note}"
        )

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


def _why(page: _Page, findings: Sequence[tuple[str, Finding]]) -> None:
    """Every finding with its evidence and remedy, as on the Why screen."""
    if findings:
        page.section("Why")
    for device_name, finding in findings:
        page.finding(device_name, finding, with_evidence=True)


def _tensors(page: _Page, moment: TargetMoment, device: DeviceMoment | None) -> None:
    """The largest families of tensors; `device` is None for host memory."""
    members = list(_members(moment, device))
    total = _bytes_of(members)
    if not total:
        return
    named = sum(size_bytes for owner, size_bytes in members if owner.category is not Category.UNATTRIBUTED)
    where = f"cuda:{device.index}" if device else "the host"
    page.section(f"Tensors on {where}: {named / total:.1%} of {format_bytes(total)} has a known owner")
    families = _families(members)
    for name, alike in families[:FAMILIES_SHOWN]:
        line = f"{format_bytes(_bytes_of(alike)):>11}  {name}"
        description = _description([owner for owner, _ in alike])
        if len(line) + 2 + len(description) <= page.width:
            page.line(line + description.rjust(page.width - len(line)))
        else:
            page.line(line)
            page.line(description.rjust(page.width))
    rest = families[FAMILIES_SHOWN:]
    if rest:
        size_bytes = sum(_bytes_of(alike) for _, alike in rest)
        page.line(f"{format_bytes(size_bytes):>11}  under {counted(len(rest), 'other name')}")


def _members(moment: TargetMoment, device: DeviceMoment | None) -> Iterable[tuple[Owner, int]]:
    look = moment.look
    if look is None:
        return ()
    if device is not None and device.layout is not None and look.map is not None:
        return block_bytes(look.map, device.layout.owners, device.index)
    return storage_bytes(look.inventory, device.index if device else HOST) if look.inventory else ()


def _families(members: Iterable[tuple[Owner, int]]) -> list[tuple[str, list[tuple[Owner, int]]]]:
    """Tensors of one category whose names differ only in numbers, the largest family first."""
    families: dict[tuple[Category, str], list[tuple[Owner, int]]] = {}
    for owner, size_bytes in members:
        families.setdefault((owner.category, family(_name(owner))), []).append((owner, size_bytes))
    by_size = sorted(families.items(), key=lambda entry: -_bytes_of(entry[1]))
    return [(name if len(alike) > 1 else _name(alike[0][0]), alike) for (_, name), alike in by_size]


def _name(owner: Owner) -> str:
    """The owner's name, with its module where the name does not say it."""
    if owner.category is Category.UNATTRIBUTED:
        return UNKNOWN
    is_within = not owner.module or owner.name.startswith(owner.module)
    return owner.name if is_within else f"{owner.module}: {owner.name}"


def _bytes_of(members: Iterable[tuple[Owner, int]]) -> int:
    return sum(size_bytes for _, size_bytes in members)


def _description(owners: Sequence[Owner]) -> str:
    """How many tensors of which kind: 12 x (1024, 4096) float32 parameter."""
    category = owners[0].category
    noun = "tensor" if category is Category.OTHER else category.words
    kinds = {(owner.shape, owner.dtype) for owner in owners}
    shape, dtype = next(iter(kinds))
    if not dtype:
        return counted(len(owners), "block")
    if len(kinds) > 1:
        return f"{len(owners):,} x {noun}, {len(kinds):,} shapes"
    return f"{len(owners):,} x {shape} {dtype} {noun}"


def _cost(moment: TargetMoment) -> list[str]:
    """When the look was taken, in what, and what it cost."""
    greeting, look = moment.greeting, moment.look
    torch = f"PyTorch {greeting.torch}" if greeting.torch else "no PyTorch yet"
    where = f"in {torch}, Python {greeting.python}"
    if look is None:
        return [f"Nothing was looked at, {where}."]
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(look.time))
    paused, used = look.cost.pause_ms, look.cost.probe_cpu_ms
    return [
        f"Taken at {at} {where}.",
        f"The program paused for {paused:.1f} ms; the probe used {used:.1f} ms of processor time.",
    ]


def _used_bytes(device: DeviceMoment) -> int | None:
    """What the process uses, None where NVML does not say it or contradicts PyTorch."""
    levels = device.bridge
    is_known = levels is not None and not isinstance(levels.outside_torch_bytes, Absent)
    return value_of(device.driver.process_used_bytes) if is_known else None


def _unknown(device: DeviceMoment) -> list[str]:
    """Why it is not known."""
    used, levels = device.driver.process_used_bytes, device.bridge
    outside = levels.outside_torch_bytes if levels else used
    if isinstance(used, Absent):
        return [f"What the process uses on cuda:{device.index} is not known: {used.reason}."]
    if isinstance(outside, Absent):
        return [f"What it holds outside PyTorch on cuda:{device.index} is not known: {outside.reason}."]
    return []


def _host(moment: TargetMoment) -> list[str]:
    """The process's host memory, in one sentence."""
    host = moment.host
    readings = ((host.rss_bytes, "resident"), (host.tensor_bytes, "in tensors"), (host.pinned_bytes, "pinned"))
    sizes = [f"{format_bytes(size)} {what}" for reading, what in readings if (size := value_of(reading))]
    return [f"Host memory: {', '.join(sizes)}."] if sizes else []
