"""How many looks come to all of a program's memory, with the usual steps a look and with a tenth of them.

Each program of `PROGRAMS` returns the name of what keeps its tensors from step to step, a function that does a step,
and all that it has. The output has for each program and number of steps a row for each look.
"""

import json
import sys
import warnings
from collections import deque

warnings.simplefilter("ignore")

import torch  # noqa: E402
from reader_looks import Looks  # noqa: E402

USUAL, TENTH = 5000, 500
LOOKS_AT_MOST, LOOKS_AFTER = 48, 4
"""So many looks are taken until nearly all has a name, and so many after it."""
NAMED_WELL = 0.99
BESIDE = 8_000
STATES, CHILDREN = 80, 3
"""So many states are in a tree, and so many below each."""
LINKS = 400
"""So many are in a chain."""
SUMMED = 60
"""So many steps make up the one graph of a sum, each with some twenty operations."""


class Row:
    def __init__(self, number):
        self.key, self.tags, self.meta = f"r{number}", [number], {"id": number}


class Node:
    def __init__(self):
        self.edges = []


class State:
    def __init__(self, hidden):
        self.hidden, self.children = hidden, {}


class Link:
    __slots__ = ("before", "hidden")

    def __init__(self, hidden, before):
        self.hidden, self.before = hidden, before


class Holder:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def rows():
    return [Row(number) for number in range(BESIDE // 4)]


def graph():
    nodes = [Node() for _ in range(BESIDE // 2)]
    for number, node in enumerate(nodes):
        node.edges = [nodes[number * 7919 % len(nodes)], nodes[number * 104729 % len(nodes)]]
    return nodes


def model_of(layers, width):
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, device="cuda") for _ in range(layers)))
    return model, torch.optim.AdamW(model.parameters())


def train(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.ones(4, model[0].in_features, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    return loss


def a_deep_model():
    owned = model_of(100, 16)
    return "0.weight", lambda _: train(*owned), Holder(owned=owned)


def a_dictionary_beside_rows():
    owned, beside = model_of(4, 64), rows()
    run = Holder(history={"train": {}, "val": {}})

    def step(number):
        train(*owned)
        run.history["val"].setdefault(number % 4, []).append(torch.ones(64, 64, device="cuda"))

    return "history['val']", step, Holder(owned=owned, beside=beside, run=run)


def a_queue_beside_a_graph():
    owned, beside = model_of(4, 64), graph()
    agent = Holder(memory=deque())

    def step(number):
        train(*owned)
        agent.memory.append((number, torch.ones(64, 64, device="cuda")))

    return "memory", step, Holder(owned=owned, beside=beside, agent=agent)


def losses_with_their_graphs():
    owned, losses = model_of(8, 64), []

    def step(_):
        losses.append(owned[0](torch.ones(4, 64, device="cuda")).sum())

    return "losses", step, Holder(owned=owned, losses=losses)


def a_sum_with_its_graphs():
    owned, run = model_of(8, 64), Holder(total=0.0)

    def step(_):
        run.total = run.total + owned[0](torch.ones(4, 64, device="cuda")).sum()

    for number in range(SUMMED):
        step(number)
    return "run.total", step, Holder(owned=owned, run=run)


def a_tree_of_states():
    owned, run = model_of(4, 64), Holder(root=State(None))
    leaves = deque([run.root])

    def step(_):
        train(*owned)
        node = State(torch.ones(64, 64, device="cuda"))
        leaves[0].children[len(leaves[0].children)] = node
        leaves.append(node)
        if len(leaves[0].children) == CHILDREN:
            leaves.popleft()

    for number in range(STATES):
        step(number)
    return "run.root.children", step, Holder(owned=owned, run=run)


def a_chain_of_states():
    owned, run = model_of(4, 64), Holder(last=None)

    def step(_):
        train(*owned)
        run.last = Link({"h": torch.ones(64, 64, device="cuda")}, run.last)

    for number in range(LINKS):
        step(number)
    return "run.last", step, Holder(owned=owned, run=run)


PROGRAMS = (
    a_chain_of_states,
    a_tree_of_states,
    a_sum_with_its_graphs,
    a_deep_model,
    a_dictionary_beside_rows,
    a_queue_beside_a_graph,
    losses_with_their_graphs,
)


def live_tensors(workspaces):
    """The sizes by address of the blocks that hold tensors: those of these requested sizes are workspaces."""
    return {
        block["address"]: block["size"]
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and block["requested_size"] not in workspaces
    }


def looked_at(step, keeper, steps):
    """A row for each look: the share that has a name, what lives on since it had one, and the keeper's elements."""
    looks, table, named_before = Looks(), [], {}
    left = LOOKS_AT_MOST
    while left > 0:
        step(len(table))
        looks.climb()
        inventory = looks.take(steps)
        live = live_tensors({known["size_bytes"] for known in inventory["known_sizes"]})
        named = {at: name for at, name in inventory["owners"].items() if at in live and not name.startswith("unnamed ")}
        share = sum(map(live.__getitem__, named)) / sum(live.values())
        lost = [named_before[at] for at in named_before.keys() & live.keys() - named.keys()]
        named_before = named
        table.append({"share": share, "lost": lost, "kept": sum(keeper in name for name in named.values())})
        left = min(left, LOOKS_AFTER + 1) - 1 if share >= NAMED_WELL else left - 1
    return table


def main():
    tables = {}
    for program in PROGRAMS:
        keeper, step, _owned = program()
        for number in range(20):
            step(number)
        tables[program.__name__] = [looked_at(step, keeper, steps) for steps in (USUAL, TENTH)]
    json.dump(tables, sys.stdout)


main()
