"""On the path of test programs: waits at the end until autograd's threads rest.

PyTorch 2.15 aborts a program ("terminate called without an active exception") that ends while the thread of a device
still gives back what a backward() held, which it does behind the back of the caller.
"""

import atexit
import time
from pathlib import Path

LIMIT_S = 10.0
STEP_S = 0.005


def is_autograd_busy() -> bool:
    for thread in Path("/proc/self/task").iterdir():
        try:
            name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
        except FileNotFoundError:  # it has ended since
            continue
        if name.startswith("pt_autograd") and rest.split()[0] != "S":
            return True
    return False


@atexit.register
def wait_for_autograd() -> None:
    end = time.monotonic() + LIMIT_S
    quiet = 0
    while quiet < 3 and time.monotonic() < end:
        time.sleep(STEP_S)  # without the interpreter's lock, which those threads wait for
        quiet = 0 if is_autograd_busy() else quiet + 1
