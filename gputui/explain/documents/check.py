"""The check document (schema gputui.check/1) as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputui.explain.check.baseline import Change
from gputui.explain.check.checked import Checked
from gputui.explain.check.peak import Holder
from gputui.explain.check.plan import Option


def check_document(checks: Sequence[Checked], problems: Sequence[str]) -> dict[str, Any]:
    """The document of checks; `problems` are sentences."""
    return {
        "schema": "gputui.check/1",
        "torch": checks[0].peak.torch if checks else None,
        "targets": [_target(check) for check in checks],
        "problems": list(problems),
    }


def _target(check: Checked) -> dict[str, Any]:
    peak = check.peak
    return {
        "name": check.target.name,
        "peak_reserved_bytes": peak.reserved_bytes,
        "peak_allocated_bytes": peak.allocated_bytes,
        "budget_bytes": check.target.budget_bytes,
        "fits": check.fits,
        "holders": [_holder(holder) for holder in peak.holders],
        "baseline_peak_reserved_bytes": check.baseline.reserved_bytes if check.baseline else None,
        "changes": [_change(change) for change in check.changes],
        "plan": [_option(option) for option in check.plan],
    }


def _option(option: Option) -> dict[str, Any]:
    case = option.answer.case
    return {
        "label": case.label,
        "settings": case.settings,
        "changes": list(case.changes),
        "peak_reserved_bytes": option.answer.outcome.peak_reserved_bytes,
        "fits": option.spare_bytes is not None,
        "spare_bytes": option.spare_bytes,
        "largest_batch": option.largest.batch if option.largest else None,
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "category": holder.category,
        "module": holder.module,
        "operation": holder.operation,
        "file": holder.line.file if holder.line else None,
        "line": holder.line.line if holder.line else None,
        "bytes": holder.bytes,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "category": change.category,
        "module": change.module,
        "bytes_before": change.bytes_before,
        "bytes_now": change.bytes_now,
    }
