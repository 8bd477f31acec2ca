"""`gputui --once`: one look at the machine, printed as a table or as the once document."""

from gputui.once.run import run_once

__all__ = ["run_once"]
