"""The top line: machine, driver, the state of the monitor, and when the numbers were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.ui.drawing.line import Line, Piece, join, spread, width_of
from gputui.units import format_clock, format_duration

if TYPE_CHECKING:
    from gputui.model.fleet.fleet import Fleet


class MonitorState(NamedTuple):
    """The state of the monitor; the top line shows all but `is_readonly`, which disables actions."""

    is_paused: bool = False
    filter_text: str = ""
    tagged: int = 0
    is_readonly: bool = False


def draw_status(snapshot: Snapshot, state: MonitorState, width: int) -> Line:
    """One line of `width` cells; where not all fits, the state is dropped last."""
    read_at = snapshot.fleet.time if snapshot.fleet else snapshot.time
    clock = format_clock(read_at) if read_at else ""
    example = f": {snapshot.example}" if snapshot.example else ""
    name: list[Piece] = [(" gputui", "title"), *([(f" DEMONSTRATION{example}", "fair")] if snapshot.is_demo else [])]
    whole = [*name, (f"  {_place(snapshot)}", "plain")]
    states = _states(snapshot, state)
    interval_s = snapshot.fleet.scrape_interval_s if snapshot.fleet else snapshot.interval_s
    timed = [*states, (f"  {interval_s:g}s  {clock} ", "dim")]
    full = [*whole, *(_counts(snapshot.fleet) if snapshot.fleet else _driver(snapshot))]
    for left, right in ((full, timed), (whole, timed), (whole, states), (name, states)):
        if width_of((*left, *right)) < width:
            return spread(left, right, width)
    return join(states or name)


def _place(snapshot: Snapshot) -> str:
    return snapshot.fleet.server if snapshot.fleet else snapshot.host.hostname


def _counts(fleet: Fleet) -> list[Piece]:
    nodes = f"{len(fleet.nodes)} node{'s' * (len(fleet.nodes) != 1)}"
    return [(f"  {nodes}  {fleet.gpus} GPU{'s' * (fleet.gpus != 1)}", "dim")] if fleet.time else []


def _driver(snapshot: Snapshot) -> list[Piece]:
    driver = snapshot.devices.driver
    named = (("driver", value_of(driver.version)), ("CUDA", value_of(driver.cuda_version)))
    return [(f"  {words} {value}", "dim") for words, value in named if value]


def _states(snapshot: Snapshot, state: MonitorState) -> list[Piece]:
    pieces: list[Piece] = []
    if snapshot.devices_age_s:
        pieces.append((f"  STALE {format_duration(snapshot.devices_age_s)}", "alarm"))
    if snapshot.findings:
        words = f"  {len(snapshot.findings)} finding{'s' * (len(snapshot.findings) > 1)}"
        is_bad = any(finding.weight is Weight.PROBLEM for finding in snapshot.findings)
        pieces.append((words, "poor" if is_bad else "fair"))
    if state.is_paused:
        pieces.append(("  PAUSED", "fair"))
    if state.tagged:
        pieces.append((f"  {state.tagged} tagged", "accent"))
    if state.filter_text:
        pieces.append((f"  filter: {state.filter_text}", "accent"))
    return pieces
