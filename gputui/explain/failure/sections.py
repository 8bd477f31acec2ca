"""An out-of-memory error in three sections, which screens and reports draw: the request, the holders, the remedies."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.failure.analysis import analysis_of
from gputui.explain.failure.sentences import PINNED, headline, place_sentences, room_sentences
from gputui.explain.whatif.advice import Replayed
from gputui.model.attached.failure import FailureAnalysis, Holder, Phase, Remedy
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.tensors import Category
from gputui.model.reading import value_of
from gputui.units import format_bytes

NO_HOLDERS = "There was no time to look at the tensors when the error occurred, so what held the memory is not known."
NOTHING_RESERVED = (
    "PyTorch had reserved nothing on this device for this program: the CUDA context, libraries and other processes held"
    " what was taken."
)
ON_THEIR_WAY = (
    "Unattributed memory in a backward pass is mostly gradients on their way from one operation to the next, which only"
    " the running pass holds."
)
NO_TIME = (
    "gputui stops a program for at most a quarter of a second at an error, which was too short to name {blocks} of its"
    " tensors."
)
NOTABLE_SHARE = 0.01
NO_REMEDY = "No remedy that gputui knows would have freed enough: use a smaller model, or more devices."
NOTHING_PINNED = (
    "PyTorch holds no pinned memory: the request itself was too large, or the system allows too little of it"
    " (ulimit -l, the container's memory)."
)
PIN_LESS = (
    "Pin less host memory (pin_memory=False, fewer workers, less offloaded), or allow more (ulimit -l, the container's"
    " memory)."
)
EXPANDABLE_REMEDY = "stuck"
"""The kind of the remedy that advises expandable segments."""
LATER = "This is about the failed request only: what the step would have requested after it is not counted."


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: `size` ("up to 1.3 GiB"), `mark` (a share, or whether it is enough), a text, and a note."""

    size: str
    mark: str
    text: str
    note: str = ""
    is_good: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a heading; the text of a row may take several lines where `is_wrapped`."""

    heading: str
    rows: tuple[Row, ...]
    is_wrapped: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the analysis; `screen` is the attach screen that shows more of it."""

    kind: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    screen: str = ""
    is_problem: bool = False


def sections_of(moment: TargetMoment, replayed: Replayed | None = None) -> tuple[Section, ...]:
    """The sections about a moment's `failure`, none without one; `replayed` is the replay of its trace, if any."""
    analysis, failure = analysis_of(moment), moment.failure
    if failure is None or analysis is None:
        return ()
    sentences = (*place_sentences(failure, analysis), *room_sentences(failure, analysis))
    request = Section("failure", headline(failure, analysis), sentences, screen="map", is_problem=True)
    none = NO_REMEDY
    if failure.asked_by == PINNED:
        none = NOTHING_PINNED if value_of(moment.host.pinned_bytes) == 0 else PIN_LESS
    return request, _holders(moment, analysis), _remedies(analysis, replayed, none)


def _holders(moment: TargetMoment, analysis: FailureAnalysis) -> Section:
    title = f"Who held the {format_bytes(analysis.reserved_bytes)} that PyTorch had reserved"
    if not analysis.parts:
        if moment.devices and not analysis.reserved_bytes:
            return Section("failure_holders", "Who held the memory", (NOTHING_RESERVED,))
        return Section("failure_holders", title, (NO_HOLDERS,))
    whole = analysis.reserved_bytes
    unnamed = sum(holder.bytes for holder in analysis.parts if holder.name == Category.UNATTRIBUTED.words)
    is_notable = unnamed >= NOTABLE_SHARE * whole
    inventory = moment.inventory
    sentences: tuple[str, ...] = ()
    if is_notable and inventory is not None and not inventory.is_complete:
        sentences = (NO_TIME.format(blocks=f"{analysis.unnamed_blocks:,}"),)
    elif is_notable and analysis.phase is Phase.BACKWARD:
        sentences = (ON_THEIR_WAY,)
    tables = (
        _table("", analysis.parts, whole),
        _table("Modules", analysis.modules, whole),
        _table("Tensors", analysis.tensors, whole),
    )
    return Section(
        "failure_holders", title, sentences, tuple(table for table in tables if table.rows), screen="tensors"
    )


def _table(heading: str, holders: tuple[Holder, ...], whole: int) -> Table:
    rows = tuple(
        Row(format_bytes(holder.bytes), f"{holder.bytes / whole:.0%}" if whole else "", holder.name, holder.note)
        for holder in holders
    )
    return Table(heading, rows)


def _remedies(analysis: FailureAnalysis, replayed: Replayed | None, none: str) -> Section:
    """The section of remedies; `none` is the sentence where no remedy is known."""
    more = f" for {format_bytes(analysis.short_bytes)} more" if analysis.short_bytes else ""
    title = f"What would have made room{more}, the least effort first"
    remedies = analysis.remedies
    sentences: tuple[str, ...] = (LATER,)
    if replayed is not None and not replayed.helps:
        remedies = tuple(remedy for remedy in remedies if remedy.kind != EXPANDABLE_REMEDY)
        sentences = (LATER, replayed.words)
    if not remedies:
        words = analysis.server.remedy if analysis.server else none
        return Section("failure_remedies", title, (words, *sentences[1:]))
    if analysis.server is not None:
        sentences = (analysis.server.remedy, *sentences)
    rows = tuple(_remedy(remedy, replayed) for remedy in remedies)
    return Section("failure_remedies", title, sentences, (Table("", rows, is_wrapped=True),))


def _remedy(remedy: Remedy, replayed: Replayed | None) -> Row:
    size = f"{'up to ' if remedy.is_at_most else ''}{format_bytes(remedy.bytes)}"
    if replayed is not None and remedy.kind == EXPANDABLE_REMEDY:
        return Row(size, "enough", f"{remedy.text} {replayed.words}", is_good=True)
    mark = "" if remedy.is_enough is None else "enough" if remedy.is_enough else "too little"
    return Row(size, mark, remedy.text, is_good=bool(remedy.is_enough))
