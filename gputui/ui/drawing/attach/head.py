"""The line that says which process and device an attach screen shows, and of which moment."""

from __future__ import annotations

import time

from gputui.explain.disconnects import sentence
from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.playback import Playback
from gputui.ui.drawing.attach.playback import draw_playback
from gputui.ui.drawing.line import Line, Piece, fit, paragraph, spread, text_of, width_of
from gputui.units import format_bytes, format_duration

ENDING_LINES = 4
"""An out-of-memory error says a lot, the most important first."""


def draw_head(
    moment: TargetMoment,
    device: DeviceMoment | None,
    width: int,
    *,
    is_past: bool,
    is_recording: bool = False,
    playback: Playback | None = None,
) -> Line:
    """One line of `width` cells; `is_past` marks a moment that the cursor went back to."""
    greeting = moment.greeting
    left: list[Piece] = [
        (f" {greeting.pid}", "title"),
        (f" {fit(greeting.command, max(8, width // 3)).rstrip()}", "plain"),
    ]
    if greeting.rank is not None:
        left.append((f"  rank {greeting.rank}/{greeting.world_size}", "dim"))
    if device is not None:
        left.append((f"  device {device.index}", "accent"))
        if len(moment.used_devices) > 1:
            left.append((f" of {len(moment.used_devices)}", "dim"))
    recording: list[Piece] = [("  ● REC", "poor")] if is_recording else []
    if playback is not None:
        states = [state for state in _states(moment, device, is_past=is_past) if state[1] != "dim"]
        return spread(left, [*states, *draw_playback(playback)], width)
    states = _states(moment, device, is_past=is_past)
    shown = next((state for state in states if width_of([*left, *recording, state]) < width), states[-1])
    return spread(left, [*recording, shown], width)


def _states(moment: TargetMoment, device: DeviceMoment | None, *, is_past: bool) -> list[Piece]:
    """What there is to say of the moment, in words that get fewer; of a replay, what is dim is left out."""
    if moment.ended:
        return [("  ENDED ", "alarm")]
    if is_past:
        return [(time.strftime("  at %H:%M:%S ", time.localtime(moment.time)), "fair")]
    if not moment.look_time or moment.look_cost is None:
        return [("  no look yet ", "dim")]
    age = format_duration(moment.time - moment.look_time)
    cost = f"a pause of {moment.look_cost.pause_ms:.1f} ms"
    named = device.layout.names_time if device and device.layout else 0.0
    if 0.0 < named < moment.look_time:
        tensors = f"tensors {format_duration(moment.time - named)} ago"
        return [(f"  looked {age} ago, at {tensors} ", "dim"), (f"  {tensors} ", "dim")]
    return [(f"  looked {age} ago, {cost} ", "dim"), (f"  looked {age} ago ", "dim")]


def draw_ending(moment: TargetMoment, width: int) -> list[Line]:
    """How the conversation ended, and that what is shown is the last that was known; nothing while it goes on."""
    if not moment.ended:
        return []
    lines = paragraph(f"{sentence(moment.pid, moment.ended).rstrip('.')}. Below is what was read last.", width, "alarm")
    if len(lines) > ENDING_LINES:
        lines = [
            *lines[: ENDING_LINES - 1],
            ((fit(text_of(lines[ENDING_LINES - 1 :]).replace("\n", " "), width), "alarm"),),
        ]
    return [((fit(text_of((line,)), width), "alarm"),) for line in lines]


def size_with_share(count: int, total: int | None) -> str:
    """Bytes, with their share of a total where there is one."""
    return format_bytes(count) if not total else f"{format_bytes(count):>9} {100 * count / total:5.1f}%"
