"""The bottom line: the keys that do something here, clickable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.binding import ActiveBinding

from gputui.ui.drawing.keys import KeyEntry, KeySpan, draw_keys
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.painted import Painted

KEPT = frozenset({"app.help", "app.quit"})
"""Ids of the keys that are dropped last: Help leads to every other key."""


class KeysLine(Painted):
    """Keys with their words, as many as fit; a click does what the key does.

    The keys whose ids are in `last` come after the other keys of the screen, so that they are dropped first. `words`
    replaces the words of keys by id.
    """

    def __init__(
        self,
        *,
        last: frozenset[str] = frozenset(),
        words: Mapping[str, str] | None = None,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._last = last
        self._words = words or {}
        self._spans: list[KeySpan] = []

    def on_mount(self) -> None:
        """Follow the screen's active bindings."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.redraw())
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - one line
        """The active bindings of this screen, without those that only the help shows."""
        bindings = self.screen.active_bindings.values()
        by_words: dict[str, ActiveBinding] = {}
        for active in bindings:
            if active.binding.show and active.enabled:
                by_words.setdefault(active.binding.description, active)
        in_order = sorted(by_words.values(), key=self._place)
        line, self._spans = draw_keys([self._entry(active) for active in in_order], width)
        return [line]

    def _place(self, active: ActiveBinding) -> int:
        """Keys between screens first, then those of this screen, then those of every screen."""
        if active.binding.group:
            return 0
        if active.node is self.app:
            return 3
        return 2 if active.binding.id in self._last else 1

    def _entry(self, active: ActiveBinding) -> KeyEntry:
        binding = active.binding
        return KeyEntry(
            self.app.get_key_display(binding),
            self._words.get(binding.id or "", binding.description),
            binding.key,
            group=binding.group.description if binding.group else "",
            is_kept=binding.id in KEPT,
        )

    def on_click(self, event: events.Click) -> None:
        """Do what the key does."""
        for start, end, key in self._spans:
            if key and start <= event.x < end:
                self.app.simulate_key(key)
