"""The tree of tensors: names become paths, modules have sums, and the total is allocated memory, to the byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gputui.explain.owners.tensor_paths import key_of, module_of, path_of, place_of
from gputui.explain.tensors.tree import (
    GROUPINGS,
    Node,
    branch_keys,
    by_line,
    by_module,
    by_shape,
    find,
    host_blocks,
    host_node,
    live_blocks,
    rows_of,
    sorted_by,
)
from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import HOST, Category, Storage
from gputui.units import MIB
from tests.explain.layouts import HOST_STORAGES, laid_out, with_lines
from tests.explain.maps import BASE
from tests.explain.named import named

PATHS = {
    "a parameter": ("model.layers.0.weight", "model/layers/0/weight"),
    "under DDP": ("model.module.fc.bias", "model/module/fc/bias"),
    "an optimizer state": ("optimizer.state[model.fc.weight].exp_avg", "optimizer/state/model/fc/weight/exp_avg"),
    "of a second optimizer": ("self.optimizers[1].state[w].step", "self/optimizers/[1]/state/w/step"),
    "of a parameter group": ("optimizer.param_groups[0]['lr']", "optimizer/param_groups/[0]/['lr']"),
    "in a dictionary": ("cache['a.b c'][3].k", "cache/['a.b c']/[3]/k"),
    "a local variable": ("logits (train.py:23 in step)", "train.py:23 in step/logits"),
    "a local variable with its lines": ("out (train.py:98, 100 in main)", "train.py:98, 100 in main/out"),
    "a global variable with its lines": ("out (cell 7:3, 5)", "out (cell 7:3, 5)"),
    "an element of a local variable": ("hidden[2].data (train.py:23 in step)", "train.py:23 in step/hidden/[2]/data"),
    "a gradient of a local variable": ("w.grad (a.py:1 in <module>)", "a.py:1 in <module>/w/grad"),
    "saved for backward": ("mat1 of AddmmBackward0", "AddmmBackward0/mat1"),
    "a copy": ("model.fc.weight (bfloat16 copy)", "model/fc/weight (bfloat16 copy)"),
    "kept by a hook": ("kept by a saved-tensor hook", "kept by a saved-tensor hook"),
    "a workspace": ("cuBLAS workspace", "cuBLAS workspace"),
    "an empty name": ("", ""),
    "only dots": ("...", ""),
    "brackets left open": ("a[b", "a/[b"),
    "brackets in brackets": ("a[b[c]].d", "a/[b[c]].d"),
}


@pytest.mark.parametrize(("name", "path"), PATHS.values(), ids=PATHS.keys())
def test_a_name_is_split_into_a_path(name, path):
    assert "/".join(path_of(named(name))) == path


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x (train.py:98, 100 in main)", "train.py in main"),
        ("x (exception errors[3], train.py:98 in main)", "exception errors[3], train.py in main"),
        ("out (train.py:98)", "out"),
        ("out", "out"),
        ("weight (bfloat16 copy)", "weight (bfloat16 copy)"),
    ],
)
def test_a_piece_is_the_same_in_the_next_look_whatever_line_it_names(name, key):
    assert key_of(path_of(named(name))[0]) == key


def test_the_depth_of_a_very_long_name_is_limited():
    path = path_of(named(".".join(["a"] * 1000)))
    assert len(path) == 24
    assert len(path[-1]) == 2 * 977 - 1


def outline(nodes: Iterable[Node], depth: int = 0) -> list[str]:
    """A tree as indented lines of title and MiB."""
    lines = []
    for node in nodes:
        lines.append(f"{'  ' * depth}{node.title} {node.bytes / MIB:g}")
        lines += outline(node.children, depth + 1)
    return lines


P, S, A = Category.PARAMETER, Category.OPTIMIZER_STATE, Category.ACTIVATION

TREES = {
    "modules have sums, numbers sort as numbers": (
        [("m.layers.10.w", P, 1), ("m.layers.2.w", P, 2), ("m.layers.2.b", P, 3), ("m.head", P, 4)],
        [
            "parameters 10",
            "  m 10",
            "    head 4",
            "    layers 6",
            "      2 5",
            "        b 3",
            "        w 2",
            "      10.w 1",
        ],
    ),
    "a wrapper shares a row with the module it wraps": (
        [("model.module.fc.weight", P, 2), ("model.module.fc.bias", P, 1)],
        ["parameters 3", "  model.module.fc 3", "    bias 1", "    weight 2"],
    ),
    "optimizer states stand under their parameter": (
        [("opt.state[m.w].exp_avg", S, 1), ("opt.state[m.w].exp_avg_sq", S, 1), ("opt.state[m.b].exp_avg", S, 1)],
        ["optimizer state 3", "  opt.state.m 3", "    b.exp_avg 1", "    w 2", "      exp_avg 1", "      exp_avg_sq 1"],
    ),
    "activations stand under their function": (
        [("x (t.py:3 in f)", A, 1), ("losses[0] (t.py:9 in g)", A, 1), ("losses[1] (t.py:9 in g)", A, 2)],
        [
            "activations 4",
            "  t.py:3 in f 1",
            "    x 1",
            "  t.py:9 in g 3",
            "    losses 3",
            "      [0] 1",
            "      [1] 2",
        ],
    ),
    "tensors of one name each have a row": (
        [("mat1 of AddmmBackward0", A, 1), ("mat1 of AddmmBackward0", A, 2)],
        ["activations 3", "  AddmmBackward0 3", "    mat1 1", "    mat1 2"],
    ),
    "a tensor whose name is a prefix of another": (
        [("w", P, 1), ("w.scale", P, 2)],
        ["parameters 3", "  w 1", "  w.scale 2"],
    ),
}


@pytest.mark.parametrize(("tensors", "lines"), TREES.values(), ids=TREES.keys())
def test_the_tree_of_modules(tensors, lines):
    assert outline(by_module(live_blocks(laid_out(*tensors)))) == lines


# name: the owner's name, the operation that saved it, its path below the module model.h.0.fc
ACTIVATIONS = {
    "an argument of an operation": ("mat1 of AddmmBackward0", "AddmmBackward0", "AddmmBackward0/mat1"),
    "a local variable": ("x (a.py:3 in f)", "GeluBackward0", "GeluBackward0/x (a.py:3 in f)"),
    "a result that nothing saved": ("x (a.py:3 in f)", "", "x (a.py:3 in f)"),
    "without a name": ("", "GeluBackward0", "GeluBackward0"),
    "an attribute of the module": ("model.h.0.fc.last", "GeluBackward0", "last"),
}


@pytest.mark.parametrize(("name", "saved_by", "path"), ACTIVATIONS.values(), ids=ACTIVATIONS.keys())
def test_an_activation_stands_under_its_module_and_operation(name, saved_by, path):
    owner = Owner(A, named(name), saved_by=saved_by, module="model.h.0.fc")
    assert "/".join(place_of(owner)) == f"model/h/0/fc/{path}"


def test_a_module_shares_its_row_with_its_only_activation():
    saved = Storage(HOST, 1, MIB, A, named("mat1 of AddmmBackward0"), "Tensor", (1,), "float32", module="m.fc")
    others = (replace(saved, address=1 << 30, module="m.out", owner=named("self of GeluBackward0")),)
    (activations,) = by_module(host_blocks((saved, *others)))
    assert outline(activations.children) == ["m 2", "  fc.AddmmBackward0.mat1 1", "  out.GeluBackward0.self 1"]


# name: category, the owner's name, its module
MODULES = {
    "a parameter": (P, "model.layers.0.fc.weight", "model.layers.0.fc"),
    "a buffer": (Category.BUFFER, "model.bn.running_mean", "model.bn"),
    "a gradient": (Category.GRADIENT, "model.fc.weight.grad", "model.fc"),
    "an optimizer state": (S, "optimizer.state[model.fc.weight].exp_avg", "model.fc"),
    "a state of an optimizer that is a local variable": (S, "o.state[m.fc.w].exp_avg (a.py:2 in f)", "m.fc"),
    "a step that belongs to no parameter": (S, "optimizer.defaults.lr", ""),
    "a copy": (P, "model.fc.weight (bfloat16 copy)", "model.fc"),
    "a model in a list": (P, "models[1].fc.weight", "models[1].fc"),
    "a parameter of no module": (P, "w", ""),
    "a parameter in a dictionary": (P, "weights['a.b']", ""),
    "a gradient of a local variable": (Category.GRADIENT, "w.grad (a.py:1 in <module>)", ""),
    "an activation": (A, "self.hidden (a.py:1 in f)", ""),
}


@pytest.mark.parametrize(("category", "name", "module"), MODULES.values(), ids=MODULES.keys())
def test_the_module_of_a_tensor_follows_from_its_name(category, name, module):
    assert module_of(Owner(category, named(name))) == module
    assert module_of(Owner(category, named(name), module="model.named")) == "model.named"


def test_tied_weights_are_counted_once():
    """They are one storage; the probe reports its first name."""
    made = laid_out(("model.embedding.weight", P, 4))
    assert [node.bytes for node in by_module(live_blocks(made))] == [4 * MIB] == [made.by_category[P]]


def test_blocks_without_an_owner_are_grouped_by_size():
    lines = outline(by_module(live_blocks(laid_out(nameless=[2, 2, 3], slack=512))))
    base = f"{BASE:#x} 2"
    assert lines[:4] == ["unattributed 7", "  2.0 MiB blocks 4", f"    {base}", f"    {BASE + 2 * MIB:#x} 2"]
    assert lines[4] == "  3.0 MiB blocks 3"


def test_a_node_sums_block_and_requested_bytes():
    (block,) = live_blocks(laid_out(("w", P, 1), slack=100))
    assert (block.bytes, block.requested_bytes) == (MIB, MIB - 100)


def test_similar_tensors_are_one_group():
    made = laid_out(("a", P, 1), ("b", P, 1), ("c", P, 2), ("d", A, 1), nameless=[4])
    assert {(node.category, node.title, node.count, node.bytes // MIB) for node in by_shape(live_blocks(made))} == {
        (P, "(262144,) float32 Tensor", 2, 2),
        (P, "(524288,) float32 Tensor", 1, 2),
        (A, "(262144,) float32 Tensor", 1, 1),
        (Category.UNATTRIBUTED, "4.0 MiB blocks", 1, 4),
    }


def test_blocks_of_one_line_are_one_group_whatever_they_hold():
    made = laid_out(("m.w", Category.PARAMETER, 2), ("h", Category.ACTIVATION, 4), ("x", Category.OTHER, 1))
    nodes = by_line(live_blocks(with_lines(made, 31, 31)))
    assert [(node.title, node.category, node.count, node.bytes // MIB) for node in nodes] == [
        ("ana/t.py:31 in f", Category.ACTIVATION, 2, 6),
        ("no line in the memory history", Category.OTHER, 1, 1),
    ]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_tree_adds_up_to_allocated_memory(grouping):
    made = laid_out(("m.a", P, 1), ("o.state[m.a].x", S, 2.5), ("h (t.py:1 in f)", A, 0.5), nameless=[3, 7], slack=8)
    nodes = GROUPINGS[grouping](live_blocks(made), ())
    assert sum(node.bytes for node in nodes) == made.statistics.allocated_bytes
    assert sum(node.count for node in nodes) == 5
    for row in rows_of(nodes, branch_keys(nodes)):
        if row.node.children:
            assert row.node.bytes == sum(child.bytes for child in row.node.children)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_key_is_unique_and_prefixed_by_its_parents(grouping):
    made = laid_out(("w", P, 1), ("w.a", P, 1), ("x of Y", A, 1), ("x of Y", A, 1), nameless=[1, 1])
    nodes = (*GROUPINGS[grouping](live_blocks(made), ()), host_node(host_blocks(HOST_STORAGES), grouping))
    rows = rows_of(nodes, branch_keys(nodes))
    assert len({row.node.key for row in rows}) == len(rows)
    above: list[Node] = []
    for row in rows:
        above[row.depth :] = [row.node]
        assert all(row.node.key[: len(node.key)] == node.key for node in above)


def test_host_memory_is_a_group_of_its_own():
    node = host_node(host_blocks(HOST_STORAGES), "module")
    assert [(branch.title, branch.bytes) for branch in (node, *node.children)] == [
        ("host memory", 1500),
        ("parameters", 1000),
        ("other tensors", 500),
    ]


ORDERED = {
    ("bytes", False): ["b", "a", "c"],
    ("bytes", True): ["c", "a", "b"],
    ("count", False): ["c", "a", "b"],
    ("name", False): ["a", "b", "c"],
    ("name", True): ["c", "b", "a"],
}


@pytest.mark.parametrize(
    ("order", "is_reversed", "titles"), [(*how, titles) for how, titles in ORDERED.items()], ids=map(str, ORDERED)
)
def test_siblings_are_sorted_at_every_level(order, is_reversed, titles):
    made = laid_out(("m.a", P, 3), ("m.b", P, 4), ("m.c.x", P, 1), ("m.c.y", P, 1))
    ((model,),) = (node.children for node in sorted_by(by_module(live_blocks(made)), order, is_reversed=is_reversed))
    assert [node.title for node in model.children] == titles


def test_closed_nodes_hide_what_is_below_them():
    nodes = by_module(live_blocks(laid_out(("m.a", P, 1), ("m.b", P, 1), ("x", A, 1))))
    assert [row.node.title for row in rows_of(nodes, set())] == ["parameters", "activations"]
    assert [(row.node.title, row.depth, row.is_open) for row in rows_of(nodes, {("parameter",)})] == [
        ("parameters", 0, True),
        ("m", 1, False),
        ("activations", 0, False),
    ]


def test_a_block_is_found_by_any_address_inside_it():
    nodes = by_module(live_blocks(laid_out(("m.a", P, 1), ("m.b", P, 2))))
    assert [find(nodes, BASE + offset) and find(nodes, BASE + offset).title for offset in (0, MIB, 3 * MIB - 1)] == [
        "a",
        "b",
        "b",
    ]
    assert find(nodes, BASE + 3 * MIB) is None


def test_a_node_keeps_its_key_while_its_function_runs_on():
    before, after = (by_module(live_blocks(laid_out((f"x (t.py:{line} in f)", A, 1)))) for line in (3, 4))
    assert [row.node.key for row in rows_of(before, branch_keys(before))] == [
        row.node.key for row in rows_of(after, branch_keys(after))
    ]
