"""How often looks at many processes are asked for: reading them takes at most a part of a processor here."""

from __future__ import annotations

import threading

SHARE = 0.25
"""Of a processor, for the looks of all processes together."""


class SharedPace:
    """Shared by the feeds of a viewer: how many read a probe, and how long each leaves between two looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._feeds = 0

    def join(self) -> None:
        """One more feed reads."""
        with self._lock:
            self._feeds += 1

    def leave(self) -> None:
        """One feed has ended."""
        with self._lock:
            self._feeds -= 1

    def rest_s(self, processor_s: float) -> float:
        """How long a feed waits after a look that took so much processor time here; alone, it need not."""
        return processor_s * self._feeds / SHARE if self._feeds > 1 else 0.0
