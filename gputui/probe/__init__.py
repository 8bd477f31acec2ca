"""What runs inside somebody else's training process: standard library only, torch only once the program has it.

`import gputui.probe` is all a program needs: it opens a socket in a folder of the user's own and waits there for
`gputui attach`. With `GPUTUI_PROBE=0` in the environment it does nothing at all.
"""

from __future__ import annotations

from gputui.probe.lifecycle import mark, start, status, stop

__all__ = ["mark", "start", "status", "stop"]

start()
