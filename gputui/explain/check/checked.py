"""The answer about one target: its peak against its budget and against its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputui.explain.check.baseline import Baseline, Change, changes
from gputui.explain.check.peak import Peak, peak_of, recorded_under
from gputui.explain.check.plan import Option, plan_of
from gputui.explain.check.target import Target
from gputui.model.attached.trace import Rehearsal


@dataclass(frozen=True, slots=True)
class Checked:
    """A target with its peak. `baseline` is None where there is none for it, `changes` is then empty."""

    target: Target
    peak: Peak
    baseline: Baseline | None = None
    changes: tuple[Change, ...] = ()
    plan: tuple[Option, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether a step runs to its end within the budget; None without one."""
        return None if self.target.budget_bytes is None else not self.peak.outcome.is_out_of_memory

    @property
    def is_risen(self) -> bool:
        """Whether the peak is above its baseline by more than the tolerance."""
        return self.baseline is not None and self.peak.reserved_bytes > self.allowed_bytes

    @property
    def allowed_bytes(self) -> int:
        """Up to where the peak may rise."""
        return int(self.baseline.reserved_bytes * (1 + self.target.tolerance)) if self.baseline else 0

    @property
    def is_of_another_torch(self) -> bool:
        """Whether the baseline was made with another version of PyTorch, which may need other memory."""
        return self.baseline is not None and self.baseline.torch != self.peak.torch

    @property
    def fails(self) -> bool:
        """Whether the exit status says so."""
        return self.fits is False or self.is_risen


def checked(
    target: Target, rehearsal: Rehearsal, baselines: Mapping[str, Baseline], *, with_plan: bool = False
) -> Checked:
    """The answer about a target. Raises UsageError for settings that do not exist."""
    recorded = recorded_under(rehearsal, target.settings)
    peak = peak_of(rehearsal, recorded, target.budget_bytes)
    baseline = baselines.get(target.name)
    has_plan = with_plan and target.budget_bytes is not None
    plan = tuple(plan_of(recorded, target.budget_bytes or 0, target.arguments)) if has_plan else ()
    return Checked(target, peak, baseline, changes(baseline, peak) if baseline else (), plan)
