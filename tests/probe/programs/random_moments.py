"""A training loop with looks at random moments, in pending calls like those that a viewer asks for."""

import ctypes
import gc
import json
import random
import sys
import threading
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from bookkeeping import DEVICE, live_blocks  # noqa: E402
from gpt import GPT  # noqa: E402
from owner_texts import owner_text  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402

LOOKS = int(sys.argv[1])


def unattributed(inventory):
    """The bytes that no storage and no known size explains, and the allocated ones without workspaces."""
    blocks = live_blocks()
    addresses = {storage["address"] for storage in inventory["storages"]}
    known = {size["size_bytes"]: size["category"] for size in inventory["known_sizes"]}
    workspaces = rest = 0
    for address, (size, requested) in blocks.items():
        if address not in addresses:
            workspaces += size if known.get(requested) == "workspace" else 0
            rest += 0 if requested in known else size
    dead = [owner_text(s) for s in inventory["storages"] if s["device"] >= 0 and s["address"] not in blocks]
    total = sum(size for size, _ in blocks.values()) - workspaces
    return {"bytes": rest, "allocated_bytes": total, "dead": dead, "problems": inventory["problems"]}


def train_until(is_done, begin, checkpointed, amp):
    model = GPT(layers=8, checkpointed=checkpointed).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    begin()  # only now, or an operation's unattributed block might be all that is allocated
    while not is_done():
        tokens = torch.zeros(4, 65, dtype=torch.long, device=DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=amp):
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def looks_during(**options):
    looks, done, is_answered = [], threading.Event(), threading.Event()
    is_answered.set()

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def look(_):
        if not done.is_set():  # afterwards only uncollected garbage is left
            looks.append(unattributed(take_inventory(torch)))
        is_answered.set()
        return 0

    def is_done():
        if len(looks) >= LOOKS:
            done.set()
        return done.is_set()

    def ask():
        while not done.wait(random.uniform(0.02, 0.05)):
            is_answered.wait()  # otherwise a slow machine would do nothing but look
            is_answered.clear()
            ctypes.pythonapi.Py_AddPendingCall(look, None)

    asking = threading.Thread(target=ask)
    gc.collect()  # frees the last case's optimizer, a reference cycle, which a walk would not find
    train_until(is_done, asking.start, **options)
    is_answered.set()
    asking.join()
    return looks


CASES = {"plain": {"checkpointed": False, "amp": False}, "checkpoint, amp": {"checkpointed": True, "amp": True}}
json.dump({name: looks_during(**options) for name, options in CASES.items()}, sys.stdout)
