"""The Changes screen: what was allocated and freed between two marks, or a mark and now."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.explain.owners.changes import changes
from gputui.model.attached.analysis import Changes
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.ui.drawing.attach.changes import End, draw_changes
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.page import Page

NO_MARK = (
    "No mark is set, so there is nothing to compare with. m sets one now; gputui.probe.mark('after forward') sets one"
    " in the program. This screen then shows what was allocated and freed since."
)
NO_MARK_IN_RECORDING = "No mark was set up to this moment of the recording, so there is nothing to compare with."

MomentChoice = tuple[End, TargetMoment]


class ChangesScreen(AttachScreen):
    """`f` and `t` choose the two moments among the marks and now: at first the last mark, and now."""

    NAME = "changes"
    LAST_KEYS = AttachScreen.LAST_KEYS - {"attach.mark"} | {"attach.look"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "choose('from', -1)", "From", id="changes.from", tooltip="from an earlier mark"),
        Binding(
            "F", "choose('from', 1)", "From later", show=False, id="changes.from-later", tooltip="from a later mark"
        ),
        Binding("t", "choose('to', -1)", "To", id="changes.to", tooltip="to an earlier mark"),
        Binding(
            "T", "choose('to', 1)", "To later", show=False, id="changes.to-later", tooltip="to a later mark, or now"
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._compared: tuple[tuple[object, ...], Changes | None] = ((), None)
        """The two looks that were compared last, and the result: many moments share a look."""

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        self.query_one(Page).redraw()

    def action_choose(self, end: str, steps: int) -> None:
        """Choose the next mark, or now; after the last comes the first."""
        places = self._places()
        if self.target and len(places) > 1:
            place = (self._index(places, end) + steps) % len(places)
            self.target.compared[end] = places[place][0] if place < len(places) - 1 or end == "from" else None
        self.draw()

    def _places(self) -> list[MomentChoice]:
        """Every mark and now, oldest first."""
        target, moment = self.target, self.moment
        if target is None or moment is None:
            return []
        marks = [(End(mark.label, mark.time, kept.look_time), kept) for mark, kept in target.timeline.marked]
        label = "now" if target.cursor is None else "the cursor"
        return [*marks, (End(label, moment.time, moment.look_time), moment)]

    def _index(self, places: list[MomentChoice], end: str) -> int:
        compared = self.target.compared[end] if self.target else None
        default = len(places) - (2 if end == "from" else 1)
        if compared is None:
            return default
        label_and_time = (compared.label, compared.time)
        matches = (number for number, (mark, _) in enumerate(places) if (mark.label, mark.time) == label_and_time)
        return next(matches, default)

    def _draw_page(self, width: int, _height: int) -> list[Line]:
        moment, places = self.moment, self._places()
        if moment is None or self.device is None:
            return self.nothing_yet(width)
        if len(places) < 2:
            return paragraph(NO_MARK_IN_RECORDING if self.player else NO_MARK, width - 1, "dim")
        before, after = (places[self._index(places, end)] for end in ("from", "to"))
        devices = self._device_of(before[1]), self._device_of(after[1])
        if devices[0] is None or devices[1] is None:
            return paragraph(
                "The process did not use this device at both moments: choose others with f and t.",
                width,
                "fair",
            )
        return draw_changes(self._changes(devices[0], devices[1]), (before[0], after[0]), width)

    def _changes(self, before: DeviceMoment, after: DeviceMoment) -> Changes:
        looks = (before.layout, after.layout)
        last, result = self._compared
        if result is None or None in looks or any(now is not old for now, old in zip(looks, last, strict=True)):
            result = changes(before, after)
            self._compared = (looks, result)
        return result

    def _device_of(self, moment: TargetMoment) -> DeviceMoment | None:
        index = self.device.index if self.device else None
        return None if index is None else moment.device(index)
