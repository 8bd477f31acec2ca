"""The verdict about a device that an inference server uses, in the server's words and with its parts of the device."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.answer.verdict import Verdict
from gputui.explain.failure.analysis import analysis_of
from gputui.explain.serving.asleep import asleep
from gputui.explain.serving.division import division
from gputui.explain.serving.words import headline, lines_of, notes_of
from gputui.model.attached.moment import DeviceMoment, TargetMoment


def in_servers_words(verdict: Verdict | None, moment: TargetMoment, device: DeviceMoment) -> Verdict | None:
    """The verdict with the server's parts of the device in place of holders; unchanged if no engine is known."""
    parts = division(moment, device)
    if verdict is None or moment.serving is None or not parts:
        return verdict
    whole_bytes = sum(part.bytes for part in parts)
    has_device = any(part.key in ("kept", "left", "free") for part in parts)
    whole = "of the device" if has_device else "of what PyTorch has reserved"
    sentence = headline(moment.serving, parts, whole_bytes, whole, asleep(device).bytes)
    failure = analysis_of(moment)
    if failure is not None and failure.server is not None:  # the error is shown beside the verdict
        sentence = failure.server.remedy
    return replace(
        verdict,
        sentence=f"{sentence} {verdict.sentence}" if verdict.growth else sentence,
        variables=verdict.variables if verdict.growth else frozenset(),
        nameless="",
        needs_look=False,
        served=lines_of(moment.serving, parts),
        served_bytes=whole_bytes,
        notes=notes_of(moment.serving),
    )
