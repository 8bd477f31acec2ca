"""The same programs where no file may grow, as on a full disk:  limited.py CASE"""

from __future__ import annotations

import resource
import runpy
import sys
from pathlib import Path

import torch

# The black box needs more than the limit, and the traceback, which goes into a file as well, less.
kept = {f"kept_{number * 7919:x}": torch.empty(number + 1, device="cuda") for number in range(2000)}
sys.dont_write_bytecode = True  # Python would put half of a file in its place
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
sys.path.insert(0, str(Path(__file__).parent))
runpy.run_module("failing")
