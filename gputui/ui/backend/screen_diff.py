"""The difference between the screen that Textual wants and the one that the terminal shows, in few bytes.

Textual sends each repainted line from the widget's left edge, with full colours for every segment. `ScreenDiff` takes
the same updates, keeps both screens as cells, and writes only the cells that differ, as curses does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from gputui.ui.backend.pen import Cell, Pen, ScreenRun, in_columns

UNKNOWN: Cell = ("\0", Style())
"""Stands for a cell whose content on the terminal is unknown."""

GAP_BYTES = 4
"""Up to this many bytes of equal cells are written again rather than skipped: moving the cursor takes as many."""


class ScreenDiff:
    """The screen as Textual wants it and as the terminal shows it."""

    def __init__(self, color_system: ColorSystem | None) -> None:
        self._color_system = color_system
        self._wanted: list[list[Cell]] = []
        self._shown: list[list[Cell]] = []
        self._strips: list[dict[int, Strip]] = []
        self._dirty: set[int] = set()

    def forget(self) -> None:
        """Assume nothing about what the terminal shows: after a resize, a suspension, or on demand."""
        self._shown = []

    def take(self, update: CompositorUpdate, width: int, height: int) -> bool:
        """Apply one of Textual's updates to the wanted screen; False for a kind of update that is unknown here."""
        if len(self._wanted) != height or (height and len(self._wanted[0]) != width):
            self._wanted = [[UNKNOWN] * width for _ in range(height)]
            self._strips = [{} for _ in range(height)]
            self._shown = []
        if isinstance(update, LayoutUpdate):
            parts = _parts_of_layout(update)
        elif isinstance(update, ChopsUpdate):
            parts = _parts_of_chops(update)
        else:
            return False
        for y, x, strip in parts:
            if y < height and x < width and self._strips[y].get(x) != strip:  # Textual may paint for the old size
                self._strips[y][x] = strip
                self._put(y, x, strip, width)
        return True

    def _put(self, y: int, x: int, strip: Strip, width: int) -> None:
        cells = _cells_of(strip)
        end = min(width, x + len(cells))
        row = self._wanted[y]
        for cut in (x, end):  # overwriting half of a wide character blanks the other half
            if 0 < cut < width and row[cut][0] == "":
                row[cut - 1 : cut + 1] = [(" ", row[cut - 1][1]), (" ", row[cut][1])]
        row[x:end] = cells[: end - x]
        self._strips[y] = {
            left: other
            for left, other in self._strips[y].items()
            if left == x or left >= end or left + other.cell_length <= x
        }
        self._dirty.add(y)

    def difference(self) -> str:
        """What to write so that the terminal shows the wanted screen; "" where it already does."""
        if not self._shown:
            width = len(self._wanted[0]) if self._wanted else 0
            self._shown = [[UNKNOWN] * width for _ in self._wanted]
            self._dirty = set(range(len(self._wanted)))
        runs: list[ScreenRun] = []
        for y in sorted(self._dirty):
            wanted, shown = self._wanted[y], self._shown[y]
            if wanted != shown:
                runs += [ScreenRun(y, start, wanted[start:end]) for start, end in _runs(wanted, shown)]
                shown[:] = wanted
        self._dirty.clear()
        if not runs:
            return ""
        pen = Pen(self._color_system, len(self._wanted[0]))
        for run in in_columns(runs):
            pen.write(run)
        return pen.finish()


def _parts_of_layout(update: LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, strips in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in strips:
            yield y, x, strip
            x += strip.cell_length


def _parts_of_chops(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, first, last in update.spans:
        for x, strip in update.chops[y].items():
            if strip is not None and x < last and x + strip.cell_length > first:
                yield y, x, strip


def _cells_of(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, control in strip:
        if not control:
            cells += _cells_of_text(text, style or Style.null())
    return cells


@lru_cache(4096)
def _cells_of_text(text: str, style: Style) -> tuple[Cell, ...]:
    """The cells of a text, cached so that unchanged cells are identical objects and compare at no cost."""
    return tuple((character, style) for character in _characters(text))


def _characters(text: str) -> Sequence[str]:
    """What each cell of a text holds: "" after a wide character; combining characters join the one before them."""
    if text.isascii():
        return text
    characters: list[str] = []
    base = 0
    for character in text:
        size = get_character_cell_size(character)
        if size:
            base = len(characters)
            characters += [character, *[""] * (size - 1)]
        elif characters:
            characters[base] += character
    return characters


def _runs(wanted: list[Cell], shown: list[Cell]) -> list[tuple[int, int]]:
    """Spans (start, end) of cells that differ; spans with a gap that is cheap to write again are joined."""
    runs: list[tuple[int, int]] = []
    for x, (new, old) in enumerate(zip(wanted, shown, strict=True)):
        if new is old or new == old:
            continue
        if runs and x - runs[-1][1] <= GAP_BYTES and _is_worth_writing(wanted[runs[-1][1] : x], new[1]):
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return [_whole_characters(wanted, start, end) for start, end in runs]


def _is_worth_writing(between: list[Cell], style: Style) -> bool:
    return all(cell[1] == style for cell in between) and sum(len(text.encode()) for text, _ in between) <= GAP_BYTES


def _whole_characters(wanted: list[Cell], start: int, end: int) -> tuple[int, int]:
    """The span, widened to whole wide characters."""
    while start and wanted[start][0] == "":
        start -= 1
    while end < len(wanted) and wanted[end][0] == "":
        end += 1
    return start, end
