"""Keys one after the other: what was typed ahead waits until the key before it has done all that it does.

Textual hands every key to the widget that has the keyboard at that moment. In a packet of several keys, as from a slow
line or a paste, the later ones would go to the widget that the first is about to leave.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

PATIENCE_S = 0.5
"""Seconds that a key waits for the one before at most: a handler that hangs must not make the keyboard deaf."""

EMPTY_TURNS = 4
"""After so many turns of the event loop without a message, none is on its way: handling one message posts others."""

Typed = events.Key | events.Paste


class TypedAhead(App[int]):
    """An application that deals with one key at a time."""

    def __init__(self, **arguments: object) -> None:
        super().__init__(**arguments)  # type: ignore[arg-type]
        self._typed: deque[Typed] = deque()
        self._is_dealing = False
        self._settling: asyncio.Task[None] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Textual's handling, but a key waits for those before it."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            self._typed.append(event)
            await self._deal_with_next()
        else:
            await super().on_event(event)

    async def _deal_with_next(self) -> None:
        if not self._typed or self._is_dealing:
            return
        self._is_dealing = True
        await super().on_event(self._typed.popleft())
        self._settling = asyncio.create_task(self._settle())

    async def _settle(self) -> None:
        """Wait until no message is left of all that the key has led to, and go on with the next key."""
        loop = asyncio.get_running_loop()
        end, empty_turns = loop.time() + PATIENCE_S, 0
        while empty_turns < EMPTY_TURNS and loop.time() < end:
            await asyncio.sleep(0)
            is_empty = all(pump._message_queue.empty() for pump in self._pumps())
            empty_turns = empty_turns + 1 if is_empty else 0
        self._is_dealing = False
        if self._typed:
            self.call_later(self._deal_with_next)

    def _pumps(self) -> Iterable[MessagePump]:
        """Everything that may have messages left, without what is closing, which handles no messages."""
        return (pump for pump in (self, *self._registry) if not pump._closing)
