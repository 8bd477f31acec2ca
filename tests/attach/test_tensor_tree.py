"""The tensor tree of a real program adds up to the allocated bytes exactly, at any moment."""

from __future__ import annotations

from gputui.explain.moment.probe_state import layouts_of
from gputui.explain.tensors.tree import GROUPINGS, branch_keys, by_module, host_blocks, host_node, live_blocks, rows_of
from gputui.model.attached.tensors import HOST
from tests.attach.children import Python
from tests.attach.small_training import FOR_EVER

LOOKS = 10

TIED = """
    import gputui.probe, torch
    device = "cuda" if torch.cuda.is_available() else "cpu"

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(1003, 64)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(11))
            self.head = torch.nn.Linear(64, 1003, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("mask", torch.ones(100, dtype=torch.bool))

        def forward(self, tokens):
            hidden = self.embedding(tokens)
            for layer in self.layers:
                hidden = layer(hidden).relu()
            return self.head(hidden)

    model = Tied().to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    host = torch.zeros(1000)
    kept = []

    def step():
        tokens = torch.randint(0, 1003, (8, 32), device=device)
        logits = model(tokens)
        kept.append(logits.mean())
        del kept[:-5]
        kept[-1].backward()
        optimizer.step()

    step()
    print("ready", device, flush=True)
"""


def test_the_tree_adds_up_to_the_allocated_bytes_at_any_moment(torch_python: Python) -> None:
    child = torch_python.fork(TIED + FOR_EVER)
    device = child.expect("ready")
    with child.attach() as client:
        for _ in range(LOOKS):
            look = client.look()
            for layout in layouts_of(look).values():
                for grouping in GROUPINGS.values():
                    nodes = grouping(live_blocks(layout), ())
                    assert sum(node.bytes for node in nodes) == layout.statistics.allocated_bytes
                    assert sum(node.count for node in nodes) == len(layout.owners)
    if device == "cpu":
        nodes = (host_node(host_blocks(s for s in look.inventory.storages if s.device == HOST), "module"),)
    else:
        nodes = by_module(live_blocks(layouts_of(look)[0]))
    titles = {".".join(row.node.key[len(row.node.key) - 3 : -1]) for row in rows_of(nodes, branch_keys(nodes))}
    assert {"10.weight", "embedding.weight", "weight.exp_avg", "weight.grad", "model.mask"} <= titles
    assert "head.weight" not in titles
    layers = [row.node.title for row in rows_of(nodes, branch_keys(nodes)) if row.node.key[-2:-1] == ("layers",)]
    assert layers[:11] == [str(number) for number in range(11)]
