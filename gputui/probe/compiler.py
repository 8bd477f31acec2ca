"""Keeping torch.compile away: inside a compiled program it would trace and compile what the probe runs there."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any


def keep_from_compiling(function: FunctionType) -> None:
    """Have this function, and all it calls, run as they are, whatever the thread they interrupt is compiling.

    Call it with the function that a pending call or a signal starts, before it starts: once it runs it is too late, and
    a look would run on fake tensors in Dynamo's hands, and fail.
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled
        return
    frames: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if hasattr(frames, "set_code_exec_strategy"):  # PyTorch 2.8 and newer
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    elif hasattr(frames, "skip_code"):
        frames.skip_code(function.__code__)
