"""The bottom line: the keys that do something here, clickable."""

from __future__ import annotations

from textual import events

from gputui.ui.drawing.line import Piece, fit, join, width_of
from gputui.ui.widgets.painted import Painted


class KeysLine(Painted):
    """Keys with their words, as many as fit; a click does what the key does."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._keys: tuple[tuple[str, str, str], ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def on_mount(self) -> None:
        """Follow the screen's active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.redraw())
        self.redraw()

    def redraw(self) -> None:
        """Draw the bindings that are active on this screen and meant to be shown."""
        bindings = self.screen.active_bindings.values()
        shown = [active.binding for active in bindings if active.binding.show and active.enabled]
        one_each = {binding.description: binding for binding in reversed(shown)}
        self._keys = tuple(
            (self.app.get_key_display(binding), binding.description, binding.key)
            for binding in reversed(one_each.values())
        )
        pieces: list[Piece] = []
        self._spans = []
        for shown_key, words, key in self._keys:
            start = width_of(pieces)
            piece: list[Piece] = [(f" {shown_key}", "key"), (f" {words} ", "dim")]
            if start + width_of(piece) > self.size.width:
                break
            pieces += piece
            self._spans.append((start, width_of(pieces), key))
        if self.size.width:
            self.show((join((*pieces, (fit("", self.size.width - width_of(pieces)), "plain"))),))

    def on_resize(self) -> None:
        """The width changed."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        for start, end, key in self._spans:
            if start <= event.x < end:
                self.app.simulate_key(key)
