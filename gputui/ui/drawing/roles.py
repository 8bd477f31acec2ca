"""Roles: what a piece of text means. Each is a component class whose look is in styles.tcss."""

from __future__ import annotations

from gputui.model.attached.tensors import Category

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
    *(f"part-{category.value}" for category in Category),
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
