"""The answer about one target: its peak against its budget and against its baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gputui.explain.check.baseline import Baseline, Change, changes
from gputui.explain.check.peak import Peak, peak_of, recorded_under
from gputui.explain.check.plan import Option, option_of, plan_of
from gputui.explain.check.target import Target
from gputui.explain.whatif.cases import AS_WRITTEN
from gputui.model.attached.trace import Rehearsal

BESIDE_NCCL = (
    "NCCL's own memory is not in these figures: 0.5 to 1.6 GiB for each communicator that moves data, by what others"
    " have measured, and more for all-to-all."
)
"""github.com/NVIDIA/nccl, issues 964, 864 and 1685."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A target with its peak. Without a `baseline` for the target (None), `changes` is empty."""

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
        """The reserved bytes that the peak may reach: the baseline's, and the tolerance."""
        return int(self.baseline.reserved_bytes * (1 + self.target.tolerance)) if self.baseline else 0

    @property
    def is_of_another_torch(self) -> bool:
        """Whether the baseline was made with another version of PyTorch, which may need other memory."""
        return self.baseline is not None and self.baseline.torch != self.peak.torch

    @property
    def fails(self) -> bool:
        """Whether the check fails, which the exit status says."""
        return self.fits is False or self.is_risen


def checked(
    target: Target,
    rehearsal: Rehearsal,
    baselines: Mapping[str, Baseline],
    *,
    with_plan: bool = False,
    tried: Sequence[tuple[Target, Rehearsal]] = (),
) -> Checked:
    """The answer about a target; its plan ends with the `tried` variants. Raises UsageError for unknown settings."""
    recorded = recorded_under(rehearsal, target.settings)
    peak = peak_of(rehearsal, recorded, target.budget_bytes)
    if target.world_size > 1:
        peak = replace(peak, doubts=(*peak.doubts, BESIDE_NCCL))
    baseline = baselines.get(target.name)
    plan: list[Option] = []
    if with_plan and target.budget_bytes is not None:
        plan += plan_of(recorded, target.budget_bytes, {**rehearsal.defaults, **target.arguments})
        for other, made in tried:
            as_written, arguments = replace(AS_WRITTEN, label=other.name), {**made.defaults, **other.arguments}
            plan.append(option_of(recorded_under(made, other.settings), as_written, target.budget_bytes, arguments))
    return Checked(target, peak, baseline, changes(baseline, peak) if baseline else (), tuple(plan))
