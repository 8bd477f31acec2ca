"""Whether the probe may run in this process."""

from __future__ import annotations

import os
import sys

from gputui import environment
from gputui.probe.guards import originals
from gputui.probe.own_imports import builtins_refusal


def refusal() -> str:
    """Why the probe must stay off in this process, "" if it need not."""
    if os.environ.get(environment.PROBE) == "0":
        return f"{environment.PROBE} is 0"
    if "t" in getattr(sys, "abiflags", ""):
        return "this is a free-threaded Python, whose threads go on during a look: use the ordinary build"
    if _is_subinterpreter():
        return "this is a subinterpreter: the main interpreter's probe serves the process"
    return builtins_refusal() or originals.refusal()


def _is_subinterpreter() -> bool:
    try:
        import _interpreters as interpreters  # type: ignore[import-not-found]  # Python 3.13 and newer
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
        except ImportError:
            return False
    return bool(interpreters.get_current() != interpreters.get_main())
