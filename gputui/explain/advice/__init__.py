"""Why a device's memory is as it is, and what to do: rules, each of which makes one finding or none.

`rules` lists the rules. A rule gets a `Situation` and compares it with its numbers in `thresholds`. `held`: live memory
of no use; `leaks`: memory that keeps rising; `allocator`: cached or stuck memory, and failed requests; `program`: what
training loops and servers do; `outside`: memory outside PyTorch. `relevance` decides which findings are shown.
"""

from __future__ import annotations

from gputui.explain.advice.relevance import relevant
from gputui.explain.advice.rules import RULES
from gputui.explain.advice.situation import situation_of
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.weight import Weight

_ORDER = tuple(Weight)


def findings_of(moment: TargetMoment, timeline: Timeline | None = None) -> tuple[tuple[DeviceMoment, Finding], ...]:
    """The findings about each device on which the process holds memory, problems of any device first."""
    pairs = [(device, one) for device in moment.held_devices for one in findings(moment, device.index, timeline)]
    return tuple(sorted(pairs, key=lambda pair: _ORDER.index(pair[1].weight)))


def findings(moment: TargetMoment, device: int, timeline: Timeline | None = None) -> tuple[Finding, ...]:
    """The findings about a device (PyTorch's index) at a moment, problems first.

    `timeline` is that of the process; what came after `moment` is left out.
    """
    device_moment = moment.device(device)
    if device_moment is None:
        return ()
    situation = situation_of(moment, device_moment, timeline)
    return relevant((finding for rule in RULES if (finding := rule.finding(situation)) is not None), situation)
