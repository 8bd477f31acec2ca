"""The inventory: every storage of the program's tensors, with an owner whose name a person would recognise.

A storage belongs to the first of these that leads to it: parameters, their gradients, buffers, optimizer states, what
the autograd graph saves for backward, and other tensors by the variable that holds them. None of the program's code is
run, none of its objects is kept alive, and CUDA is not initialised.
"""

from __future__ import annotations

import gc
from typing import Any

from gputui.probe.inventory.run import WALK, InventoryRun
from gputui.probe.main_thread.isolation import isolated
from gputui.probe.names.memory import Memory
from gputui.probe.objects.kinds import forget_passing_classes
from gputui.probe.objects.threads import Threads, threads_now
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.meter import Meter

NOT_READY = "PyTorch is still being imported."
NEEDED = ("_C", "Tensor", "nn", "optim", "cuda")


def take_inventory(
    torch: Torch,
    method: str = WALK,
    meter: Meter | None = None,
    memory: Memory | None = None,
    threads: Threads | None = None,
) -> dict[str, Any]:
    """The fields of `gputui.model.attached.tensors.Inventory`, as plain lists, dictionaries, strings and numbers.

    `method` is "walk" (variables, modules, optimizers, the autograd graph, young objects: milliseconds) or "scan" (all
    Python objects: a tenth of a second in a large program). What `meter` does not allow is left out: then `is_complete`
    is false, and the next inventory with the same `memory` goes on from there. `threads` are those of this moment, if
    they were already read. Call it in the main thread, as a pending call, or in another thread while that one waits.
    """
    if not all(hasattr(torch, name) for name in NEEDED):
        fields = {"storages": [], "how": method, "problems": [NOT_READY], "is_complete": True, "known_sizes": []}
        return {**fields, "by_address": {}, "collections": []}
    was_collecting = gc.isenabled()
    gc.disable()  # a collection in the middle would run the program's destructors
    try:
        arguments = torch, method, meter or Meter(float("inf")), memory or Memory(), threads or threads_now()
        return isolated(torch, lambda: InventoryRun(*arguments).result())
    finally:
        forget_passing_classes()
        if was_collecting:
            gc.enable()
