"""The attach screens by name, in the order of their keys."""

from __future__ import annotations

from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.attach.changes import ChangesScreen
from gputui.ui.screens.attach.map import MapScreen
from gputui.ui.screens.attach.memory import MemoryScreen
from gputui.ui.screens.attach.ranks import RanksScreen
from gputui.ui.screens.attach.tensors import TensorsScreen
from gputui.ui.screens.attach.why import WhyScreen

ATTACH_SCREENS: dict[str, type[AttachScreen]] = {
    screen.NAME: screen for screen in (MemoryScreen, WhyScreen, MapScreen, TensorsScreen, ChangesScreen, RanksScreen)
}
