"""One look at an attached process as text for people, drawn as on the screens: where its memory is, why, and whose."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gputui.commands.printed.page import Page
from gputui.commands.printed.step import peak_report
from gputui.explain.advice import findings_of
from gputui.explain.advice.relevance import names_a_cause
from gputui.explain.answer.served import in_servers_words
from gputui.explain.answer.verdict import Verdict, holders_at_top, look_holders, verdict
from gputui.explain.failure.sections import Section, sections_of
from gputui.explain.memory.parts import parts_of
from gputui.explain.moment.probe_state import at_top
from gputui.explain.owners.families import bytes_of, description, families
from gputui.explain.owners.names import counted
from gputui.explain.owners.owners import block_bytes, storage_bytes
from gputui.explain.serving.words import notes_of
from gputui.explain.step.step import step_of
from gputui.explain.whatif.advice import Replayed, replayed_of, with_outcomes
from gputui.model.attached.analysis import Finding, Owner
from gputui.model.attached.moment import DeviceMoment, OpenedFile, TargetMoment
from gputui.model.attached.tensors import HOST, NAMELESS, Category
from gputui.model.machine.programs import program_of
from gputui.model.reading import Absent, value_of
from gputui.output import RED, columns_of
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.failure import draw_section
from gputui.ui.drawing.attach.memory import draw_memory
from gputui.ui.drawing.attach.why import draw_finding, draw_holders
from gputui.ui.drawing.entries import LOOKS, draw_entry
from gputui.ui.drawing.meters import ASCII
from gputui.units import format_bytes, format_clock

FAMILIES_SHOWN = 10
EVENTS_WORKED_OUT = 500_000
"""In a trace with more events, it would take more than a few seconds to find out who held the memory at the peak."""
REQUEST = "The request that failed"
"""Heading of the section about the error, whose own title is at the top of the report."""

OUTSIDE_PROCESS = {"others", "driver", "free"}
LIVE = {*(category.value for category in Category), "rounding", "allocated"}


def report(moment: TargetMoment, problems: Sequence[str], width: int, *, in_color: bool) -> str:
    """The answer in the first lines, then a section each for memory, findings and tensors; `problems` are sentences."""
    page = Page(width, in_color=in_color)
    devices, findings = moment.held_devices, findings_of(moment)
    replayed = replayed_of(moment, findings)
    sections = _begin(page, moment, replayed[1] if replayed else None)
    names = {device.index: f"cuda:{device.number}: " if len(devices) > 1 else "" for device in devices}
    answers = {device.index: _verdict(moment, device, findings) for device in devices}
    named = [(names[device.index], finding) for device, finding in with_outcomes(findings, replayed)]
    given = [(names[index], answer) for index, answer in answers.items() if answer]
    _answer(page, given, named[:1], is_of_error=bool(sections))
    for problem in () if moment.look or moment.file or moment.ended else moment.problems:
        page.wrapped(problem.text, "")
    _summaries(page, moment, problems)
    for section in sections:
        page.line("")
        page.drawn(draw_section(replace(section, title=REQUEST) if section.is_problem else section, page.width)[:-1])
    shown = at_top(moment) or moment
    when = f", near the top of a step at {format_clock(shown.look_time)}" if shown is not moment else ""
    for device in shown.held_devices:
        _memory(page, shown, device, answers[device.index], when)
        _peak(page, moment, device)
    _why(page, named)
    for place in (shown.held_devices or (None,)) if shown.look else ():
        _tensors(page, shown, place)
    _this_look(page, moment, problems if devices else ())
    return page.text


def _answer(
    page: Page, verdicts: Sequence[tuple[str, Verdict]], first: Sequence[tuple[str, Finding]], *, is_of_error: bool
) -> None:
    """Print verdicts and the first finding, which leads where it names a cause and the report is about no error."""
    said = [answer.cause.title for _, answer in verdicts if answer.cause]
    variables = frozenset[str]().union(*(answer.variables for _, answer in verdicts))
    first = [(name, finding) for name, finding in first if finding.title not in said]
    leads = not is_of_error and any(names_a_cause(finding, variables) for _, finding in first)
    titles = [(LOOKS[finding.weight], f"{name}{finding.title}") for name, finding in first]
    for look, title in titles if leads else ():
        page.drawn(draw_entry(look, title, page.width))
    for name, answer in verdicts:
        page.wrapped(f"{name}{answer.sentence} {answer.nameless}".rstrip(), "")
    for look, title in () if leads else titles:
        page.drawn(draw_entry(look, title, page.width))
    for name, answer in verdicts:
        if answer.not_yet:
            page.wrapped(f"{name}{answer.not_yet}: the attach screens go on looking for it.", "")


def _summaries(page: Page, moment: TargetMoment, problems: Sequence[str]) -> None:
    """A line for each device; without devices, what a server's scheduler says, and `problems` say where to look."""
    for device in moment.held_devices:
        page.line(_summary(device, page.width))
    if not moment.held_devices:
        notes = notes_of(moment.serving) if moment.serving else ()
        page.wrapped(" ".join(("It holds no GPU memory.", *notes, *problems)), "")


def _peak(page: Page, moment: TargetMoment, device: DeviceMoment) -> None:
    """The peak of a file's trace: a trace that is too long to be worked out now is left to the Step screen."""
    trace = next((trace for trace in moment.traces if trace.device == device.index), None)
    if trace is None or moment.look is None:
        return
    page.section(f"The recorded trace of cuda:{device.number}")
    step = step_of(trace, moment.look) if len(trace) <= EVENTS_WORKED_OUT else None
    if step is None:
        page.wrapped(f"It has {len(trace):,} events: the Step screen shows its peak.", "  ")
        return
    for line in peak_report(step, page.width):
        page.line(line)


def _this_look(page: Page, moment: TargetMoment, problems: Sequence[str]) -> None:
    """When the look was taken, what it cost, and what could not be known."""
    page.section("This look")
    unknown = [sentence for device in moment.held_devices for sentence in _unknown(device)]
    is_said = moment.look is None and not moment.file and not moment.ended
    notes = [*problems, *(problem.text for problem in (() if is_said else moment.problems))]
    for sentence in (*_cost(moment), *_host(moment), *unknown, *notes):
        page.wrapped(sentence, "  ")


def _begin(page: Page, moment: TargetMoment, replayed: Replayed | None) -> tuple[Section, ...]:
    """Print the process or file and the title of its out-of-memory error, if any; return the sections on the error."""
    page.line(_introduction(moment) if moment.pid or not moment.file else _title(moment.file))
    sections = tuple(sections_of(moment, replayed))
    for section in sections[:1]:
        page.wrapped(section.title, "! ", color=RED)
    return sections


def _introduction(moment: TargetMoment) -> str:
    """PID, rank and program."""
    greeting = moment.greeting
    rank = f"rank {greeting.rank} of {greeting.world_size}  " if greeting.rank is not None else ""
    return f"{moment.place}  {rank}{program_of(greeting.command)}"


def _title(file: OpenedFile) -> str:
    return f"{file.kind} {file.name}"


def _summary(device: DeviceMoment, width: int) -> str:
    """What the process holds and its largest parts, on one line."""
    parts = {part.key: part for part in parts_of(device)}
    live = sum(part.bytes for key, part in parts.items() if key in LIVE)
    sizes = [(part.bytes, part.name) for key, part in parts.items() if key not in OUTSIDE_PROCESS | LIVE]
    used = _used_bytes(device)
    text = f"cuda:{device.number}  {format_bytes(used or device.statistics.reserved_bytes)}"
    text += " used: " if used else " reserved: "
    separator = ""
    for size_bytes, name in sorted([(live, "tensors"), *sizes], reverse=True):
        piece = f"{separator}{format_bytes(size_bytes)} {name}"
        if size_bytes and len(text) + len(piece) <= width:
            text += piece
            separator = ", "
    return text


def _verdict(
    moment: TargetMoment, device: DeviceMoment, findings: Sequence[tuple[DeviceMoment, Finding]]
) -> Verdict | None:
    own = [finding for other, finding in findings if other.index == device.index]
    looks, top = (look_holders(moment, device),), holders_at_top(moment, device)
    found = verdict(moment, device, looks=looks, findings=own, top=top)
    return in_servers_words(found, moment, device)


def _memory(page: Page, moment: TargetMoment, device: DeviceMoment, answer: Verdict | None, when: str) -> None:
    """The holders and parts of a device's memory, as on Why and Memory; `when` says when the look was, "" for now."""
    if answer:
        whole = "The server's division" if answer.served else "Largest holders"
        share = "" if answer.served else f", with their share {answer.whole}"
        page.section(f"{whole} of cuda:{device.number}{share}")
        page.drawn(draw_holders(answer, page.width))
    gpu = device.driver.nvml_index
    page.section(f"Memory of cuda:{device.number}{'' if gpu is None else f', GPU {gpu}'}{when}")
    told = None if answer and answer.served else answer  # the division is above
    page.drawn(draw_memory(moment, device, page.width, Appearance(ASCII), told))


def _why(page: Page, findings: Sequence[tuple[str, Finding]]) -> None:
    """Every finding with its evidence and remedy, as on the Why screen."""
    if findings:
        page.section("Why")
    for name, finding in findings:
        page.drawn(draw_finding(replace(finding, title=f"{name}{finding.title}"), page.width, is_current=False)[:-1])


def _tensors(page: Page, moment: TargetMoment, device: DeviceMoment | None) -> None:
    """The largest families of tensors; `device` is None for host memory."""
    members = list(_members(moment, device))
    total = bytes_of(members)
    if not total:
        return
    named = sum(size_bytes for owner, size_bytes in members if owner.category not in NAMELESS)
    has_lines = not named and any(owner.name for owner, _ in members)
    where = f"cuda:{device.number}" if device else "the host"
    known = "by the line that allocated it" if has_lines else f"{named / total:.1%} has a known owner"
    page.section(f"Tensors on {where}: {format_bytes(total)}, {known}")
    by_name = families(members)
    for name, alike in by_name[:FAMILIES_SHOWN]:
        line = f"{format_bytes(bytes_of(alike)):>11}  {name}"
        kind = description([owner for owner, _ in alike])
        if columns_of(line) + 2 + len(kind) <= page.width:
            page.line(line + kind.rjust(page.width - columns_of(line)))
        else:
            page.line(line)
            page.line(kind.rjust(page.width))
    rest = by_name[FAMILIES_SHOWN:]
    if rest:
        size_bytes = sum(bytes_of(alike) for _, alike in rest)
        page.line(f"{format_bytes(size_bytes):>11}  under {counted(len(rest), 'other name')}")


def _members(moment: TargetMoment, device: DeviceMoment | None) -> Iterable[tuple[Owner, int]]:
    look = moment.look
    if look is None:
        return ()
    if device is not None and device.layout is not None and look.map is not None:
        return block_bytes(look.map, device.layout.owners, device.index)
    return storage_bytes(look.inventory, device.index if device else HOST) if look.inventory else ()


def _cost(moment: TargetMoment) -> list[str]:
    """When the look was taken, with which versions of PyTorch and Python, and what it cost."""
    greeting, look = moment.greeting, moment.look
    torch = f"PyTorch {greeting.torch}" if greeting.torch else "no PyTorch yet"
    where = f"in {torch}, Python {greeting.python}"
    if look is None:
        return [f"Nothing was looked at, {where}."]
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(look.time))
    if moment.look_cost is None:
        return [f"Taken at {at}."]
    paused, used = look.cost.pause_ms, look.cost.probe_cpu_ms
    return [
        f"Taken at {at} {where}.",
        f"The program paused for {paused:.1f} ms; the probe used {used:.1f} ms of processor time.",
    ]


def _used_bytes(device: DeviceMoment) -> int | None:
    """NVML's bytes of the process on a device, None where NVML does not tell them or contradicts PyTorch."""
    levels = device.bridge
    is_known = levels is not None and not isinstance(levels.outside_torch_bytes, Absent)
    return value_of(device.driver.process_used_bytes) if is_known else None


def _unknown(device: DeviceMoment) -> list[str]:
    """Why the process's bytes, in all or outside PyTorch, are not known; empty where they are known."""
    used, levels = device.driver.process_used_bytes, device.bridge
    outside = levels.outside_torch_bytes if levels else used
    if isinstance(used, Absent):
        return [f"What the process uses on cuda:{device.number} is not known: {used.reason}."]
    if isinstance(outside, Absent):
        return [f"What it holds outside PyTorch on cuda:{device.number} is not known: {outside.reason}."]
    return []


def _host(moment: TargetMoment) -> list[str]:
    """The process's host memory, in one sentence."""
    host = moment.host
    readings = ((host.rss_bytes, "resident"), (host.tensor_bytes, "in tensors"), (host.pinned_bytes, "pinned"))
    sizes = [f"{format_bytes(size)} {what}" for reading, what in readings if (size := value_of(reading))]
    return [f"Host memory: {', '.join(sizes)}."] if sizes else []
