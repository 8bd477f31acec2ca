"""Findings about the machine, kept from snapshot to snapshot: a sign becomes a finding after some time."""

from __future__ import annotations

from typing import NamedTuple

from gputui.explain.machine.rules import RULES, Rule
from gputui.explain.machine.scene import Scene, Sign
from gputui.model.history import History
from gputui.model.machine.device import Device
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Snapshot
from gputui.model.weight import Weight

EVERY_S = 1.9
"""The least time between two runs of the rules: a point of the history is 2 s long."""

FIRST_S = 10.0
"""Signs seen this soon were there before gputui: the first snapshots do not read everything."""
SINGLE_LOOK_S = 60.0
UNWATCHED_S = 30.0
"""After this long without a snapshot, as in a pause, all signs begin anew."""

_Key = tuple[str, str, "Identity | None", str]


class _Seen(NamedTuple):
    """A sign that is being seen; `at_begin`: it has been seen from the first snapshots on."""

    since: float
    last: float
    at_begin: bool
    sign: Sign


class Watch:
    """Asks the rules about each snapshot; `findings` are those of the newest, problems and then the oldest first.

    With `is_single_look`, signs that need `SINGLE_LOOK_S` or less are findings at once: nobody looks again.
    """

    def __init__(self, *, is_single_look: bool = False) -> None:
        self._patience_s = SINGLE_LOOK_S if is_single_look else 0.0
        self.findings: tuple[MachineFinding, ...] = ()
        self._seen: dict[_Key, _Seen] = {}
        self._gpus: dict[str, Device] = {}
        self._begin = self._last = 0.0

    def take(self, snapshot: Snapshot, history: History) -> tuple[MachineFinding, ...]:
        """The findings after this snapshot, whose readings are in the history already."""
        now = snapshot.time
        since_last_s = now - self._last  # below 0 where the clock was set back
        if 0 <= since_last_s < EVERY_S:
            return self.findings
        if not 0 <= since_last_s <= UNWATCHED_S + snapshot.interval_s:
            self._seen.clear()
            self._begin = now
        self._last = now
        scene = Scene(snapshot, history, self._gpus)
        for rule in RULES:
            self._ask(rule, scene, now)
        if not snapshot.devices_age_s:
            self._gpus.update({device.key: device for device in scene.devices if device.mig is None})
        found = [
            _finding(rule, seen)
            for rule in RULES
            for key, seen in self._seen.items()
            if key[0] == rule.kind and seen.last - seen.since >= rule.after_s - self._patience_s
        ]
        found.sort(key=lambda finding: (finding.weight is not Weight.PROBLEM, finding.since))
        self.findings = tuple(found)
        return self.findings

    def _ask(self, rule: Rule, scene: Scene, now: float) -> None:
        """Keep the signs that a rule sees, and forget its others; while the driver is silent, signs of devices stay."""
        if scene.snapshot.devices_age_s and rule.needs_devices:
            return
        for sign in rule.find(scene):
            key = (rule.kind, sign.device, sign.process, sign.about)
            before = self._seen.get(key)
            since = min(before.since if before else now, now if sign.since is None else sign.since)
            at_begin = before.at_begin if before else now <= self._begin + FIRST_S
            self._seen[key] = _Seen(since, now, at_begin and sign.since is None, sign)
        for key in [key for key, seen in self._seen.items() if key[0] == rule.kind and seen.last < now]:
            del self._seen[key]


def _finding(rule: Rule, seen: _Seen) -> MachineFinding:
    sign = seen.sign
    return MachineFinding(
        kind=rule.kind,
        weight=sign.weight,
        where=sign.where,
        title=sign.title,
        evidence=sign.evidence,
        remedy=sign.remedy,
        since=seen.since,
        is_older=seen.at_begin,
        device=sign.device,
        process=sign.process,
        about=sign.about,
    )
