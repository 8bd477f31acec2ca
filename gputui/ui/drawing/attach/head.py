"""The lines below the status of an attach screen: process, device and moment; how it ended; its last action."""

from __future__ import annotations

import time

from rich.cells import cell_len

from gputui.explain.moment.actions import ACTIONS
from gputui.explain.moment.disconnects import sentence
from gputui.model.attached.analysis import Outcome
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.target import ActionName
from gputui.model.attached.timeline import Playback
from gputui.model.machine.programs import program_of
from gputui.ui.drawing.line import Line, Piece, fit, join, paragraph, printable, spread, text_of, width_of
from gputui.units import format_duration

ENDING_LINES = 4
"""An out-of-memory error is long, and has the most important part first."""

CLOSES_RESULT = "Esc closes this."


def draw_target(
    moment: TargetMoment,
    device: DeviceMoment | None,
    width: int,
    *,
    is_past: bool,
    is_recording: bool = False,
    playback: Playback | None = None,
) -> Line:
    """One line of `width` cells; `is_past`: the cursor is on an earlier moment."""
    greeting = moment.greeting
    name: list[Piece] = [(f" {moment.place if moment.pid or not moment.file else moment.file.kind} ", "title")]
    program = printable(program_of(greeting.command))
    least = min(cell_len(program), max(8, width // 3))
    left: list[Piece] = []
    if greeting.rank is not None:
        left.append((f"  rank {greeting.rank}/{greeting.world_size}", "dim"))
    if device is not None:
        left.append((f"  device {device.number}", "accent"))
        if len(moment.used_devices) > 1:
            left.append((f" of {len(moment.used_devices)}", "dim"))
    recording: list[Piece] = [("  ● REC", "poor")] if is_recording else []
    states = _states(moment, device, is_past=is_past)
    playing = draw_playback(playback) if playback is not None else []
    if playing:
        states = [*(state for state in states if state[1] != "dim"), ("", "plain")]
    taken = width_of([*name, *left, *recording, *playing]) + least
    shown = next((state for state in states if taken + width_of([state]) < width), states[-1])
    right = [*recording, shown, *playing]
    room = max(least, width - 1 - width_of([*name, *left, *right]))
    return spread([*name, (fit(program, room).rstrip(), "plain"), *left], right, width)


def _states(moment: TargetMoment, device: DeviceMoment | None, *, is_past: bool) -> list[Piece]:
    """The state of the moment in words, the longest form first; a replay leaves out dim forms."""
    if moment.failure:
        formats = ("  OUT OF MEMORY at %Y-%m-%d %H:%M:%S ", "  OUT OF MEMORY at %H:%M:%S ", "  OUT OF MEMORY ")
        return [(time.strftime(form, time.localtime(moment.time)), "alarm") for form in formats]
    if moment.ended:
        return [("  ENDED ", "alarm")]
    if is_past or moment.file:
        form, role = ("  at %H:%M:%S ", "fair") if is_past else ("  of %Y-%m-%d %H:%M:%S ", "dim")
        return [(time.strftime(form, time.localtime(moment.time)), role)]
    if not moment.look_time or moment.look_cost is None:
        return [("  no look yet ", "dim")]
    age, pause = format_duration(moment.time - moment.look_time), f"a pause of {moment.look_cost.pause_ms:.1f} ms"
    named = device.layout.names_time if device and device.layout else 0.0
    if 0.0 < named < moment.look_time:
        tensors = f"tensors {format_duration(moment.time - named)} ago"
        return [(f"  looked {age} ago ({tensors}) ", "dim"), (f"  {tensors} ", "dim")]
    forms = [f"looked {age} ago, {pause}", f"looked {age} ago"]
    if moment.is_top:
        forms = [*(f"the top of a step, {form}" for form in forms), "the top of a step"]
    return [(f"  {form} ", "accent" if moment.is_top else "dim") for form in forms]


def draw_ending(moment: TargetMoment, width: int) -> list[Line]:
    """How the connection ended, and that the screen shows the last known state; nothing while it lasts."""
    if not moment.ended or moment.failure:  # the Why screen has the error
        return []
    text = f"{sentence(moment.pid, moment.ended).rstrip('.')}. Below is the last known state."
    lines = paragraph(text, width, "alarm")
    if len(lines) > ENDING_LINES:
        lines = [
            *lines[: ENDING_LINES - 1],
            ((fit(text_of(lines[ENDING_LINES - 1 :]).replace("\n", " "), width), "alarm"),),
        ]
    return [((fit(text_of((line,)), width), "alarm"),) for line in lines]


def draw_playback(playback: Playback) -> list[Piece]:
    """State, speed, position and length."""
    times = f"{_clock(playback.position_s)} / {_clock(playback.length_s)} "
    if playback.is_at_end:
        return [("  END OF REPLAY ", "fair"), (times, "plain")]
    sign: Piece = ("  ▶ ", "good") if playback.is_playing else ("  PAUSED ", "fair")
    return [sign, (f"{_speed(playback.speed)}x ", "accent"), (times, "plain")]


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def _speed(speed: float) -> str:
    return f"{speed:g}" if speed >= 1 else f"1/{1 / speed:g}"


def draw_action(pending_action: ActionName | None, outcome: Outcome | None, width: int) -> list[Line]:
    """Lines of at most `width` cells; none where there is no action to report."""
    if pending_action:
        call = ACTIONS[pending_action].call
        waiting = "waiting for the program's main thread to reach the next line of Python."
        text = f"{call}: {'recording ...' if pending_action is ActionName.RECORD_STEP else waiting}"
        return paragraph(text, width, "fair")
    if outcome is None:
        return []
    lines = paragraph(" ".join(outcome.sentences), width, "good" if outcome.is_as_predicted else "fair")
    if width_of(lines[-1]) + len(CLOSES_RESULT) + 2 <= width:
        return [*lines[:-1], join((*lines[-1], (f"  {CLOSES_RESULT}", "dim")))]
    return [*lines, ((f" {CLOSES_RESULT}", "dim"),)]
