"""The attach screens, each declared once: keys, help and jumps come from this table."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from gputui.ui.screens.base import MonitorScreen


class AttachScreenEntry(NamedTuple):
    """An attach screen; calling the entry opens a new one.

    `class_path` is "module:class" below `gputui.ui.screens.attach`: the screens need this table for their keys, so it
    cannot import them. `title` and `tooltip` describe its key, `help_heading` stands above the keys of its own.
    """

    name: str
    title: str
    tooltip: str
    class_path: str
    help_heading: str = ""
    is_for_files: bool = True
    """Whether the screen has something to show for a file, which holds one moment of one process."""

    @property
    def screen_class(self) -> type[MonitorScreen]:
        """The screen's class, imported now."""
        module, _, name = self.class_path.partition(":")
        loaded: type[MonitorScreen] = getattr(import_module(f"{__package__}.{module}"), name)
        return loaded

    def __call__(self) -> MonitorScreen:
        return self.screen_class()


ATTACH_SCREENS = {
    entry.name: entry
    for entry in (
        AttachScreenEntry(
            "memory", "Memory", "where memory is, now and over time", "memory:MemoryScreen", "Memory screen"
        ),
        AttachScreenEntry("why", "Why", "findings, and what to do", "why:WhyScreen"),
        AttachScreenEntry("map", "Map", "the allocator's segments and blocks", "map:MapScreen", "Map screen"),
        AttachScreenEntry(
            "tensors", "Tensors", "who owns the allocated memory", "tensors:TensorsScreen", "Tensors screen"
        ),
        AttachScreenEntry(
            "changes",
            "Changes",
            "what was allocated and freed since",
            "changes:ChangesScreen",
            "Changes screen",
            is_for_files=False,
        ),
        AttachScreenEntry("ranks", "Ranks", "all attached processes", "ranks:RanksScreen", is_for_files=False),
        AttachScreenEntry("step", "Step", "who held the memory over a step", "step:StepScreen", "Step screen"),
        AttachScreenEntry(
            "whatif", "What-if", "what other settings would have taken", "whatif:WhatIfScreen", "What-if screen"
        ),
    )
}
"""By name, in the order of their keys: 1, 2, 3, ..."""
