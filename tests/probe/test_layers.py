"""Activations stand under the module whose forward saved them."""

import pytest

from gputui.probe.inventory.activations import assign_modules
from gputui.probe.tensors.autograd import Inputs

AT_LEAST_IN_THE_RIGHT_BLOCK = 0.95
MODELS = ("gpt", "gpt_with_checkpointing", "resnet", "unet")
WEIGHT, LAYER, FIRST = 1, 2, 3
MANY = 1000


@pytest.mark.parametrize("model", MODELS)
def test_activations_belong_to_the_right_block_of_layers(run_once, model):
    checked = run_once("layers.py")[model]
    assert checked["total_bytes"] > 0
    share = checked["in_block_bytes"] / checked["total_bytes"]
    assert share >= AT_LEAST_IN_THE_RIGHT_BLOCK, checked["wrong"]


class Node(int):
    """The id of a node, which counts how often anything is looked up for one."""

    looked_up = 0

    def __hash__(self):
        Node.looked_up += 1
        return int(self)


def modules_of(sources):
    """The module that each of so many nodes, each with the number of its one input, gets below a layer."""
    edges = {LAYER: [WEIGHT], **{FIRST + number: [source] for number, source in enumerate(sources)}}
    flat = [number for node, of in edges.items() for number in (Node(node), len(of), *map(Node, of))]
    nodes = {node: Node(node) for node in edges if node != LAYER}
    storages = {node: {"category": "activation"} for node in nodes}
    graph = {"nodes": nodes, "parameters": {WEIGHT: ["net.block.linear"]}, "embeddings": set(), "views": set()}
    assign_modules(storages, graph, Inputs(flat))
    return [storage["module"] for storage in storages.values()]


@pytest.mark.parametrize(
    ("sources", "in_block"),
    [
        pytest.param(range(LAYER, LAYER + MANY), 64, id="a chain"),
        pytest.param([LAYER] * MANY, MANY, id="a thousand with the same input"),
        pytest.param([LAYER, *[FIRST] * (MANY - 1)], MANY, id="a thousand with an input that has no parameters"),
    ],
)
def test_modules_are_found_by_few_steps_for_each_operation(sources, in_block):
    Node.looked_up = 0
    assert modules_of(sources) == ["net.block"] * in_block + [""] * (MANY - in_block)
    assert Node.looked_up < 32 * MANY
