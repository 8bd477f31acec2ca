"""A recorded step as text for people: the peak, its holders, the phases, what lived too long."""

from __future__ import annotations

from textwrap import wrap

from gputui.commands.printed.page import paragraphs
from gputui.explain.step.late import late_at_peak
from gputui.explain.step.phases import Phase
from gputui.explain.step.step import Grouping, Holders, Step
from gputui.explain.step.summary import cost_words, extent, headline, largest_line
from gputui.model.attached.trace import RecordedTraces
from gputui.output import cut
from gputui.units import format_bytes

HOLDERS_SHOWN = 12
RISES_SHOWN = 5


def step_report(step: Step, recorded: RecordedTraces, width: int) -> str:
    """Lines of at most `width` columns."""
    timeline = step.timeline
    sentences = [_capital(headline(step)), _capital(largest_line(step)), _capital(extent(step))]
    sentences += filter(None, [cost_words(step, recorded)])
    sentences += [f"Lived longer than it had to: {late.words}" for late in late_at_peak(step)]
    lines = paragraphs(sentences, width)
    lines += ["", "Phases                events      peak   allocated at the end"]
    for run in step.phases_within():
        if run.phase is not Phase.UNKNOWN:
            peak = timeline.allocated[timeline.peak(run.first, run.end)]
            last = timeline.allocated[run.end - 1]
            lines.append(
                f"  {run.phase.value:<18}{run.end - run.first:>8,}{format_bytes(peak):>10}{format_bytes(last):>12}"
            )
    lines += ["", "Alive at the peak, by the line that allocated it"]
    lines += [_row(step, group) for group in step.holders(step.peak, Grouping.LINE)[:HOLDERS_SHOWN]]
    lines += ["", "Largest allocations of the step"]
    for event in step.rises(RISES_SHOWN):
        block = timeline.blocks[event]
        size = format_bytes(timeline.sizes_bytes[block])
        lines.append(f"  {size:>9}  event {event - step.first + 1:>7,}  {step.name_of(block)}")
    return "".join(f"{cut(line, width)}\n" for line in lines)


def peak_report(step: Step, width: int) -> list[str]:
    """The peak and its holders, of a file in which the trace is one thing of several."""
    lines = [line for text in (headline(step), extent(step)) for line in wrap(_capital(text), width - 2)]
    lines += [_row(step, group).removeprefix("  ") for group in step.holders(step.peak, Grouping.LINE)[:HOLDERS_SHOWN]]
    return [f"  {cut(line, width - 2)}" for line in lines]


def _row(step: Step, group: Holders) -> str:
    count = f"{group.count}x" if group.count > 1 else ""
    return (
        f"  {format_bytes(group.bytes):>9}  {group.kind.value:<15} {count:>5}  {group.name}  ({step.span_words(group)})"
    )


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}."
