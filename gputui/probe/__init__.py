"""The part of gputui that runs inside somebody else's training process.

`import gputui.probe` is all a program needs: it opens a socket in the user's own folder and waits there for
`gputui attach`. With `GPUTUI_PROBE=0` in the environment it does nothing at all. The probe imports the standard library
alone, and uses PyTorch only once the program has imported it.
"""

from __future__ import annotations

from gputui.probe.own_imports import own_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputui.probe.lifecycle import mark, start, status, stop
else:
    _lifecycle = own_import.module("gputui.probe.lifecycle")
    mark, start, status, stop = _lifecycle.mark, _lifecycle.start, _lifecycle.status, _lifecycle.stop

__all__ = ["mark", "start", "status", "stop"]

start()
