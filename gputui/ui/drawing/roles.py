"""Roles: what a piece of text means. Each is a component class whose look is in styles.tcss."""

from __future__ import annotations

ROLES = (
    "plain",
    "dim",
    "title",
    "head",
    "good",
    "fair",
    "poor",
    "alarm",
    "track",
    "accent",
    "key",
    "cursor",
    "tagged",
    "part-driver",
    "part-others",
    "part-outside",
    "part-parameter",
    "part-gradient",
    "part-optimizer_state",
    "part-buffer",
    "part-activation",
    "part-kv_cache",
    "part-workspace",
    "part-other",
    "part-unattributed",
    "part-newer",
    "part-since",
    "part-cached-since",
    "part-rounding",
    "part-pending",
    "part-stuck",
    "part-private",
    "part-releasable",
    "part-allocated",
    "part-cached",
    "part-free",
)

COMPONENT_CLASSES = {f"role--{role}" for role in ROLES}


def level_role(value: float, fair: float, poor: float) -> str:
    """The role of a value: good below `fair`, fair below `poor`, otherwise poor."""
    if value >= poor:
        return "poor"
    return "fair" if value >= fair else "good"
