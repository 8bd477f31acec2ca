"""Looks at a list of losses with 101 operations each; prints the containers of each look."""

import torch
from looking import print_json

from gputui.probe.inventory.activations import assign_keepers
from gputui.probe.inventory.inventory import take_inventory
from gputui.probe.names.memory import Memory
from gputui.probe.search.containers import add_graphs
from gputui.probe.tensors.autograd import Inputs

LOOKS = 4


def kept_losses(*, has_backward):
    weight, losses = torch.ones(8, 8, requires_grad=True), []
    for _ in range(5):
        x = torch.ones(2, 8)
        for _ in range(50):
            x = (x @ weight).relu()
        losses.append(x.sum())
        if has_backward:
            losses[-1].backward()
    return losses


def looks_at(losses):
    memory, looks = Memory(), []
    for _ in range(LOOKS):
        inventory = take_inventory(torch, memory=memory)
        graph = inventory["graph"]
        nodes = assign_keepers(inventory["by_address"], graph, Inputs(graph["edges"]))
        looks.append(add_graphs(inventory["containers"], inventory["roots"], nodes, memory.graph_sizes))
    return looks


if __name__ == "__main__":
    print_json(
        {
            "with_a_backward_pass": looks_at(kept_losses(has_backward=True)),
            "without_a_backward_pass": looks_at(kept_losses(has_backward=False)),
        }
    )
