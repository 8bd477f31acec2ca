"""Roles: what a piece of text means. Each is a component class; styles.tcss has its look, `CATEGORIES` a category's."""

from __future__ import annotations

from gputui.explain.memory.parts import STATES
from gputui.model.attached.tensors import CATEGORIES

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
    *(f"part-{category.value}" for category in CATEGORIES),
    "part-since",
    "part-cached-since",
    *(f"part-{key}" for key in STATES),
    "part-allocated",
    "part-cached",
    "part-free",
)

COMPONENT_CLASSES = {f"role--{role}" for role in ROLES}
STYLES_OF_CATEGORIES = "".join(
    f".role--part-{category.value} {{ color: {colour}; background: $background; }}\n"
    f"App:ansi .role--part-{category.value} {{ color: {of_terminal}; }}\n"
    for category, (_, (colour, of_terminal), *_) in CATEGORIES.items()
)
