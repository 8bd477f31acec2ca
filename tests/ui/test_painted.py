"""The base class of painted widgets: when they draw, and how high they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.screen import Screen

from gputui.ui.drawing.line import Line, wrap
from gputui.ui.drawing.roles import COMPONENT_CLASSES
from gputui.ui.widgets.painted import Notes, Painted
from tests.ui.running import Running

WORDS = "a sentence of eight words in some lines"


class Body(Painted):
    """Records the size of each draw."""

    DEFAULT_CSS = "Body { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="body")
        self.sizes: list[tuple[int, int]] = []

    def draw(self, width: int, height: int) -> Sequence[Line]:
        self.sizes.append((width, height))
        return [((f"{width}x{height}", "plain"),)]


class Page(Screen[None]):
    """Notes above a body."""

    DEFAULT_CSS = "Page { overflow: hidden; }"

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES

    def __init__(self) -> None:
        super().__init__()
        self.words = WORDS

    def compose(self) -> ComposeResult:
        yield Notes(lambda width: wrap(self.words, width) if self.words else [], id="notes")
        yield Body()


async def test_a_widget_redraws_when_resized_and_notes_are_as_high_as_their_lines():
    page = Page()
    async with App().run_test(size=(80, 10)) as pilot:
        running = Running(pilot.app, pilot)
        await pilot.app.push_screen(page)
        notes, body = page.query_one(Notes), page.query_one(Body)
        notes.redraw()
        await running.settle()
        assert (notes.size.height, body.sizes[-1]) == (1, (80, 9))
        await running.resize(20, 10)
        assert (notes.size.height, body.sizes[-1]) == (2, (20, 8))
        page.words = ""
        notes.redraw()
        await running.settle()
        assert (notes.size.height, body.sizes[-1]) == (0, (20, 10))
        page.words = WORDS
        notes.redraw()
        await running.settle()
        assert (notes.size.height, body.sizes[-1]) == (2, (20, 8))


async def test_unchanged_lines_are_not_painted_again():
    page = Page()
    async with App().run_test(size=(80, 10)) as pilot:
        running = Running(pilot.app, pilot)
        await pilot.app.push_screen(page)
        await running.settle()
        painted: list[object] = []
        body = page.query_one(Body)
        refresh = body.refresh
        body.refresh = lambda *regions, **options: painted.append(regions) or refresh(*regions, **options)
        body.redraw()
        assert painted == []
        body.show([(("other", "plain"),)])
        assert len(painted) == 1
