"""The inspector: everything about the block under the map's cursor."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.inspector import Inspection, draw_below, draw_beside
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.painted import Painted

BESIDE_TO_WIDTH = 60
"""Up to this width it is a column beside the map; a wider one lies below the map."""


class Inspector(Painted):
    """Shows one block; blank where there is none."""

    def __init__(self, appearance: Appearance, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._appearance = appearance
        self._inspection: Inspection | None = None

    def set_inspection(self, inspection: Inspection | None) -> None:
        self._inspection = inspection
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The block in a column, or in lines below the map."""
        if self._inspection is None:
            return ()
        if width <= BESIDE_TO_WIDTH:
            return draw_beside(self._inspection, width, self._appearance)[:height]
        return draw_below(self._inspection, width, height, self._appearance)
