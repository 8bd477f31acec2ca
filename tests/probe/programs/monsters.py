"""Looks at programs that hold too much for one stop, each bounded by a number of steps:  monsters.py OBJECTS PROGRAM...

Prints for each program and look: the steps, the calls of Python and C functions, the storages found in that look and in
all looks so far, and whether the look was complete. No clock decides anything: the meter's stands still.
"""

import gc
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from looking import print_json  # noqa: E402

from gputui.probe.inventory.inventory import take_inventory  # noqa: E402
from gputui.probe.names.memory import Memory  # noqa: E402
from gputui.probe.pace.meter import Meter  # noqa: E402

STEPS, LOOKS = 5000, 9
MANY = int(sys.argv[1])


class Node:
    def __init__(self, number):
        self.own = [number]
        self.by_name = {"self": self}


def many_tensors_in_a_list():
    return [torch.zeros(1) for _ in range(MANY)]


def many_tensors_in_a_dictionary():
    return {number: torch.zeros(1) for number in range(MANY)}


def a_dictionary_of_many_lists():
    return {number: [number] for number in range(MANY)}


def twice_as_many_objects():
    return [Node(number) for number in range(2 * MANY // 3)]


def five_thousand_modules():
    return torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4)) for _ in range(2500))


def many_losses_with_300_nodes_each():
    weight, losses = torch.ones(8, 8, requires_grad=True), []
    for _ in range(MANY // 1000):
        x = torch.ones(2, 8)
        for _ in range(100):
            x = (x @ weight).relu() * 1.5
        losses.append(x.sum())
    return weight, losses


def one_graph_of_many_nodes():
    x = torch.ones(4, requires_grad=True)
    for _ in range(MANY // 6):
        x = torch.sin(x) * 1.5
    return x


MONSTERS = (
    many_tensors_in_a_list,
    many_tensors_in_a_dictionary,
    a_dictionary_of_many_lists,
    twice_as_many_objects,
    five_thousand_modules,
    many_losses_with_300_nodes_each,
    one_graph_of_many_nodes,
)


def looks_at(make):
    kept, memory, looks = make(), Memory(), []
    for number in range(LOOKS):
        meter = Meter(1.0, max_steps=STEPS, clock=lambda: 0.0)
        calls = 0

        def count(_frame, event, _argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        method = "scan" if number == LOOKS - 1 else "walk"
        gc.disable()
        sys.setprofile(count)
        inventory = take_inventory(torch, method, meter, memory)
        sys.setprofile(None)
        gc.enable()
        memory.complete(inventory, None)
        looks.append(
            {
                "method": method,
                "steps": meter.steps,
                "calls": calls,
                "storages": len(inventory["storages"]),
                "all_storages": len(memory.entries),
                "is_complete": inventory["is_complete"],
                "problems": inventory["problems"],
            }
        )
    del kept
    return looks


if __name__ == "__main__":
    print_json({make.__name__: looks_at(make) for make in MONSTERS if make.__name__ in sys.argv[2:]})
