"""A program of `real/` that also says what each of its steps needs: `needing.py PROGRAM`.

Once its first steps are over, it has PyTorch count the peak anew for a while, and prints that in bytes as a line.
"""

from __future__ import annotations

import runpy
import sys
import threading
import time
from pathlib import Path

import torch

FIRST_STEPS_S, COUNTED_S = 5.0, 8.0


def tell(output: int) -> None:
    """Wait until memory is allocated, count, and print."""
    while not torch.cuda.is_initialized() or not torch.cuda.max_memory_allocated():
        time.sleep(0.1)
    time.sleep(FIRST_STEPS_S)
    while torch.cuda.memory_stats()["allocation.all.allocated"] == 0:
        time.sleep(0.1)
    torch.cuda.reset_peak_memory_stats()
    time.sleep(COUNTED_S)
    with open(output, "w", closefd=False) as file:
        file.write(f"{torch.cuda.max_memory_allocated()}\n")


if __name__ == "__main__":
    path = Path(sys.argv.pop(1))
    sys.argv[0] = str(path)
    sys.path[0] = str(path.parent)
    threading.Thread(target=tell, args=(1,), daemon=True).start()
    runpy.run_path(str(path), run_name="__main__")
