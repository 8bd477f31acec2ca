"""In front of the probe's own `sitecustomize`: processor time passes `GPUTUI_BENCHMARK_SLOWER` times as fast.

The probe stops by processor time, and predicts by it what a call will take. So it has no more time for a look than on a
machine that is so many times slower.
"""

import os
import sys
import time

_SLOWER = float(os.environ["GPUTUI_BENCHMARK_SLOWER"])
_thread_time = time.thread_time


def _passes_faster() -> float:
    return _SLOWER * _thread_time()


_passes_faster.__module__ = "time"  # the probe takes no clock that another module has put in its place
time.thread_time = _passes_faster

sys.path.remove(os.path.dirname(__file__))  # noqa: PTH120 (pathlib would be imported before the probe)
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402, F401
