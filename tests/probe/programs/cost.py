"""The cost of an inventory: cost.py LAYERS prints milliseconds for a GPT with that number of layers."""

import gc
import json
import statistics
import sys
import time
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from gpt import GPT  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cost_ms(how, times):
    """The fastest and the median of that many looks, in milliseconds."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        take_inventory(torch, how)
        took.append((time.perf_counter() - start) * 1000)
    return {"fastest_ms": round(min(took), 2), "median_ms": round(statistics.median(took), 2)}


def measure(layers):
    model = GPT(layers=layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(4, 64, dtype=torch.long, device=DEVICE)
    moments = {}
    for moment in ("first step", "later step"):
        logits = model(tokens)
        loss = logits.sum()
        moments[f"{moment}, after forward"] = costs()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss, logits
        moments[f"{moment}, after step"] = costs()
    return moments


def costs():
    storages = len(take_inventory(torch)["storages"])
    return {
        "storages": storages,
        "walk": cost_ms("walk", 30),
        "scan": cost_ms("scan", 5),
        "objects": len(gc.get_objects()),
    }


json.dump(measure(int(sys.argv[1])), sys.stdout)
