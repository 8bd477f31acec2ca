"""From Textual's frames to few bytes: what the terminal shows is remembered, and only cells that differ are sent.

Textual sends each repainted line from the widget's left edge with full colours for every segment. `Frames` takes the
same updates, keeps the wanted and the shown screen as cells, and writes runs of cells that differ with the attributes
that change between them, as curses does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

Cell = tuple[str, Style]
"""A character and its style; the cell behind a wide character holds an empty text."""

UNKNOWN: Cell = ("\0", Style())
"""A cell of which nobody knows what the terminal shows there."""

GAP = 4
"""So many equal cells are written again rather than skipped: moving the cursor takes as many bytes."""

RESET = ("0", "39", "49")


class Frames:
    """The screen as it should be and as the terminal shows it."""

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
        """Apply one of Textual's updates to the wanted screen; False where it is of a kind not known here."""
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
            if y < height and self._strips[y].get(x) != strip:
                self._strips[y][x] = strip
                self._put(y, x, strip, width)
        return True

    def _put(self, y: int, x: int, strip: Strip, width: int) -> None:
        cells = _cells_of(strip)
        end = min(width, x + len(cells))
        row = self._wanted[y]
        for cut in (x, end):  # half of a wide character that is covered takes the other half with it
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
        """What to write so that the terminal shows what is wanted, "" where it does already."""
        if not self._shown:
            width = len(self._wanted[0]) if self._wanted else 0
            self._shown = [[UNKNOWN] * width for _ in self._wanted]
            self._dirty = set(range(len(self._wanted)))
        pen = _Pen(self._color_system)
        for y in sorted(self._dirty):
            wanted, shown = self._wanted[y], self._shown[y]
            if wanted != shown:
                for start, end in _runs(wanted, shown):
                    pen.write(y, start, wanted[start:end])
                shown[:] = wanted
        self._dirty.clear()
        return pen.finish()


class _Pen:
    """Writes runs of cells: knows where the cursor is and which attributes are on."""

    def __init__(self, color_system: ColorSystem | None) -> None:
        self._color_system = color_system
        self._parts: list[str] = []
        self._at: tuple[int, int] | None = None
        self._look = RESET

    def write(self, y: int, x: int, cells: list[Cell]) -> None:
        """Write `cells` from column `x` of line `y` on."""
        if self._at is not None and self._at[0] == y and self._at[1] < x:
            self._parts.append(f"\x1b[{x - self._at[1]}C")
        elif self._at != (y, x):
            self._parts.append(f"\x1b[{y + 1};{x + 1}H")
        style: Style | None = None
        for text, cell_style in cells:
            if cell_style is not style:
                style = cell_style
                self._change_look(_look_of(style, self._color_system))
            self._parts.append(text)
        self._at = (y, x + len(cells))

    def finish(self) -> str:
        """All that was written, the attributes reset."""
        if self._look != RESET:
            self._parts.append("\x1b[0m")
        return "".join(self._parts)

    def _change_look(self, look: tuple[str, str, str]) -> None:
        if look == self._look:
            return
        if look == RESET:
            self._parts.append("\x1b[m")
        elif look[0] != self._look[0]:
            colors = [code for code, plain in zip(look[1:], RESET[1:], strict=True) if code != plain]
            self._parts.append(f"\x1b[{';'.join([look[0], *colors])}m")
        else:
            codes = [new for new, old in zip(look[1:], self._look[1:], strict=True) if new != old]
            self._parts.append(f"\x1b[{';'.join(codes)}m")
        self._look = look


@lru_cache(4096)
def _look_of(style: Style, color_system: ColorSystem | None) -> tuple[str, str, str]:
    """SGR parameters of attributes (with the reset before them), foreground and background; no colours with None."""
    attributes = Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        blink=style.blink,
        reverse=style.reverse or (color_system is None and _has_background(style)),
        strike=style.strike,
    )
    codes = attributes._make_ansi_codes(color_system or ColorSystem.STANDARD)
    foreground: tuple[str, ...] = RESET[1:2]
    background: tuple[str, ...] = RESET[2:]
    if color_system and style.color:
        foreground = style.color.downgrade(color_system).get_ansi_codes()
    if color_system and style.bgcolor:
        background = style.bgcolor.downgrade(color_system).get_ansi_codes(foreground=False)
    return (f"0;{codes}" if codes else "0", ";".join(foreground), ";".join(background))


def _has_background(style: Style) -> bool:
    """What is marked by its background, as a cursor's line is, has to be marked without colours as well."""
    return style.bgcolor is not None and not style.bgcolor.is_default


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
        if control:
            continue
        cells.extend(zip(_characters(text), repeat(style or Style.null()), strict=False))
    return cells


@lru_cache(4096)
def _characters(text: str) -> Sequence[str]:
    """What each cell of a text holds: "" behind a wide character, combining ones with the character before them."""
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
    """Spans of cells that differ, those with less than `GAP` equal cells of one look between them joined."""
    runs: list[tuple[int, int]] = []
    for x, (new, old) in enumerate(zip(wanted, shown, strict=True)):
        if new == old:
            continue
        if runs and x - runs[-1][1] < GAP and all(cell[1] == new[1] for cell in wanted[runs[-1][1] : x]):
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return [_whole_characters(wanted, start, end) for start, end in runs]


def _whole_characters(wanted: list[Cell], start: int, end: int) -> tuple[int, int]:
    """The span widened so that it begins and ends with whole wide characters."""
    while start and wanted[start][0] == "":
        start -= 1
    while end < len(wanted) and wanted[end][0] == "":
        end += 1
    return start, end
