"""Prints what `training.setup` asks for with layers that are not checkpointed: JSON, by the layers' numbers.

Usage: rehearsed.py LAYERS ..., such as 5,6; "none" for no layer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from gputui.rehearsal.rehearse import report_of

standard_output, sys.stdout = sys.stdout, sys.stderr
reports = {}
for words in sys.argv[1:]:
    import training

    training.WHOLE = set() if words == "none" else set(map(int, words.split(",")))
    reports[words] = report_of("training:setup", {"batch": 32}, 2)
standard_output.write(json.dumps(reports) + "\n")
