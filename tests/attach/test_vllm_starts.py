"""What `gputui check vllm serve` says of a server that has not started, and what a real vLLM on a fake GPU then has.

Needs an interpreter with vLLM in `GPUTUI_TEST_TORCH`; all settings are started by one program, ten seconds each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gputui.explain.serving.ahead.command_line import ServeFlags
from gputui.explain.serving.ahead.device import Device
from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import Verdict, start_of
from gputui.model.checkpoint import Checkpoint
from tests.attach.children import Child, Python
