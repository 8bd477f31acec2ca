"""A training loop, measured in windows requested on standard input:  training.py [LAYERS WIDTH BATCH TOKENS reads]

Without arguments it has many small layers, which Python bounds; with them it is the GPT of `gpt_steps.py`.
Each line of input is "probe on", "probe off", or a number of seconds to measure; each answer is a line of JSON.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

WARM_UP = {"small layers": 200, "GPT": 3}


def small_layers() -> Callable[[], None]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [torch.nn.Linear(32, 32) for _ in range(24)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.zeros(8, 32, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return step


def gpt() -> Callable[[], None]:
    from gpt_steps import training

    return training()


class Gaps(threading.Thread):
    """Another thread of the program, which records its longest wait to run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0

    def run(self) -> None:
        while True:
            before = time.perf_counter()
            time.sleep(0.001)
            self.longest_s = max(self.longest_s, time.perf_counter() - before - 0.001)


def measure(seconds: float) -> dict[str, float]:
    gaps.longest_s, longest, steps = 0.0, 0.0, 0
    began = last = time.perf_counter()
    began_cpu = time.thread_time()
    while last - began < seconds:
        step()
        now = time.perf_counter()
        longest, last, steps = max(longest, now - last), now, steps + 1
    cpu_s = (time.thread_time() - began_cpu) / steps
    return {
        "step_s": (last - began) / steps,
        "step_cpu_s": cpu_s,
        "longest_step_s": longest,
        "longest_gap_s": gaps.longest_s,
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


step = gpt() if sys.argv[1:] else small_layers()
gaps = Gaps()
gaps.start()
for _ in range(WARM_UP["GPT" if sys.argv[1:] else "small layers"]):
    step()
for line in sys.stdin:
    if line.startswith("probe"):
        before = resident_bytes()
        import gputui.probe  # GPUTUI_PROBE=0 keeps it from starting at import

        os.environ["GPUTUI_PROBE"] = "1"
        gputui.probe.start() if line.strip() == "probe on" else gputui.probe.stop()
        answer = {"resident_bytes": float(resident_bytes() - before)}
    else:
        answer = measure(float(line))
    print(json.dumps(answer), flush=True)
