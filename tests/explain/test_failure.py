"""The analysis of an out-of-memory error: phase, place, what was missing, and the remedies by their effort."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.documents.attach import attach_document
from gputui.explain.failure.analysis import analysis_of
from gputui.explain.failure.phase import as_activations, phase_of
from gputui.explain.failure.remedies import RULES
from gputui.explain.failure.sections import sections_of
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import Failure, Phase
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.owners import Keeper
from gputui.model.attached.tensors import Category
from gputui.units import GIB, MIB
from tests.explain.moments import Story, Tensor, moment, row

MODULE = CallSite("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1779, "_wrapped_call_impl")
APPLY = CallSite("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1097, "_apply")
ENGINE = CallSite("/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 869, "_engine_run_backward")
ADAM = CallSite("/venv/lib/python3.11/site-packages/torch/optim/adam.py", 500, "_multi_tensor_adam")
WRAPPER = CallSite("/venv/lib/python3.11/site-packages/torch/optim/optimizer.py", 493, "wrapper")
ADAM_STEP = CallSite("/venv/lib/python3.11/site-packages/torch/optim/adam.py", 220, "step")
LION = CallSite("/home/ana/lion.py", 31, "update")
LION_STEP = CallSite("/home/ana/lion.py", 20, "step")
CLOSURE = CallSite("/venv/lib/python3.11/site-packages/lightning/pytorch/loops/closure.py", 134, "closure")
STEP = CallSite("/home/ana/train.py", 12, "step")
MAIN = CallSite("/home/ana/train.py", 40, "<module>")
EVALUATE = CallSite("/home/ana/train.py", 30, "evaluate")

FORWARD_STACK = (MODULE, STEP, MAIN)


def failed(
    *tensors: Tensor,
    requested_mib: int = 256,
    free_mib: int = 200,
    stack: tuple[CallSite, ...] = FORWARD_STACK,
    unused_mib: float = 0,
    outside_mib: int = 518,
    **changes: object,
) -> TargetMoment:
    """A moment with these tensors on device 0, at which a request has failed."""
    held = moment(row(*tensors, free=unused_mib))
    reserved = held.devices[0].statistics.reserved_bytes
    failure = Failure(
        time=100.0,
        device=0,
        requested_bytes=requested_mib * MIB,
        device_free_bytes=free_mib * MIB,
        device_total_bytes=reserved + (free_mib + outside_mib) * MIB,
        thread="MainThread",
        stack=stack,
    )
    return replace(held, failure=replace(failure, **changes))


def kinds(held: TargetMoment) -> list[str]:
    analysis = analysis_of(held)
    assert analysis is not None
    return [remedy.kind for remedy in analysis.remedies]


PHASES = {
    "a module on the stack": (FORWARD_STACK, "", Phase.FORWARD),
    "a backward node": ((ENGINE, STEP, MAIN), "AddmmBackward0", Phase.BACKWARD),
    "an optimizer's file": ((ADAM, ADAM_STEP, WRAPPER, STEP, MAIN), "", Phase.OPTIMIZER),
    "an optimizer of the program": ((LION, LION_STEP, WRAPPER, STEP, MAIN), "", Phase.OPTIMIZER),
    "a loss for an optimizer": ((STEP, CLOSURE, ADAM_STEP, WRAPPER, MAIN), "", Phase.FORWARD),
    "a module for an optimizer": ((MODULE, STEP, CLOSURE, ADAM_STEP, WRAPPER, MAIN), "", Phase.FORWARD),
    "a function that evaluates": ((MODULE, EVALUATE, MAIN), "", Phase.EVALUATION),
    "a model on its way to the device": ((APPLY, MAIN), "", Phase.UNKNOWN),
    "the program alone": ((MAIN,), "", Phase.UNKNOWN),
    "no stack": ((), "", Phase.UNKNOWN),
}


@pytest.mark.parametrize("name", PHASES)
def test_the_phase_follows_from_the_stack(name: str) -> None:
    stack, node, phase = PHASES[name]
    failure = failed(Tensor(64, "x"), stack=stack, backward_node=node).failure
    assert failure is not None
    assert phase_of(failure) is phase


FUNCTIONS = {
    Phase.EVALUATION: (
        "evaluate",
        "run_eval",
        "validation_step",
        "val_epoch",
        "test_model",
        "test2",
        "predict_step",
        "generate",
    ),
    Phase.FORWARD: (
        "retrieval_loss",
        "invalidate_cache",
        "predict_noise",
        "generate_anchors",
        "latest",
        "interval",
        "step",
    ),
}


@pytest.mark.parametrize(("phase", "name"), [(phase, name) for phase, names in FUNCTIONS.items() for name in names])
def test_an_evaluation_is_told_by_whole_words_of_a_functions_name(phase: Phase, name: str) -> None:
    failure = failed(Tensor(64, "x"), stack=(MODULE, replace(EVALUATE, function=name), MAIN)).failure
    assert failure is not None
    assert phase_of(failure) is phase


STDLIB = CallSite("/usr/lib/python3.11/threading.py", 982, "run")
MODEL = CallSite("/venv/lib/python3.11/site-packages/transformers/activations.py", 66, "forward")
FROZEN = CallSite("<frozen runpy>", 88, "_run_code")
PLACES = {
    "the program": ((MODULE, STEP, MAIN, FROZEN), STEP, (MAIN,)),
    "a package": ((MODEL, MODULE, STEP, MAIN), MODEL, (STEP, MAIN)),
    "Python itself": ((MODULE, STDLIB, STEP), STEP, ()),
    "PyTorch alone": ((MODULE, ENGINE, FROZEN), MODULE, ()),
    "nothing": ((), None, ()),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_is_the_innermost_line_outside_pytorch(name: str) -> None:
    stack, place, callers = PLACES[name]
    analysis = analysis_of(failed(Tensor(64, "x"), stack=stack))
    assert analysis is not None
    assert (analysis.place, analysis.callers) == (place, callers)


def test_what_was_missing_is_the_request_less_what_was_free() -> None:
    analysis = analysis_of(failed(Tensor(1024, "x"), unused_mib=30))
    assert analysis is not None
    assert (analysis.usable_free_bytes, analysis.short_bytes) == (200 * MIB, 56 * MIB)
    assert (analysis.reserved_bytes, analysis.allocated_bytes) == (1054 * MIB, 1024 * MIB)
    assert (analysis.cached_bytes, analysis.largest_piece_bytes) == (30 * MIB, 30 * MIB)
    assert analysis.outside_bytes == 518 * MIB


def test_a_memory_fraction_leaves_what_it_allows() -> None:
    analysis = analysis_of(failed(Tensor(1024, "x"), free_mib=4096, allowed_bytes=1100 * MIB))
    assert analysis is not None
    assert (analysis.usable_free_bytes, analysis.short_bytes) == (76 * MIB, 180 * MIB)
    limit = analysis.remedies[0]
    assert (limit.kind, limit.bytes, limit.is_enough) == ("limit", 4020 * MIB, True)


BIG = Tensor(4096, "model.weight", Category.PARAMETER)
REMEDIES = {
    "others": (failed(BIG, outside_mib=3000), ["others"]),
    "stuck": (failed(BIG, unused_mib=900), ["stuck"]),
    "gradients": (failed(BIG, Tensor(512, "model.weight.grad", Category.GRADIENT)), ["gradients"]),
    "gradients in backward": (
        failed(BIG, Tensor(512, "model.weight.grad", Category.GRADIENT), stack=(ENGINE,), backward_node="AddBackward0"),
        [],
    ),
    "an exception": (failed(BIG, Tensor(512, "h", Category.ACTIVATION, keeper=Keeper.EXCEPTION)), ["exceptions"]),
    "a notebook": (failed(BIG, Tensor(512, "Out[3]", Category.OTHER, keeper=Keeper.NOTEBOOK_OUTPUT)), ["outputs"]),
    "a reducer": (failed(BIG, Tensor(512, "buckets", Category.OTHER, keeper=Keeper.REDUCER)), ["gradient_buckets"]),
    "a gradient's graph": (
        failed(BIG, Tensor(512, "parameters", Category.OTHER, keeper=Keeper.GRADIENT_GRAPH)),
        ["kept_by_gradient_graph"],
    ),
    "graphs in a list": (
        failed(
            BIG,
            *(Tensor(1, f"losses[{n}] (train.py:40 in main)", Category.OTHER) for n in range(6)),
            *(Tensor(128, f"h{n}", kept_by=f"losses[{n}] (train.py:40 in main)") for n in range(6)),
        ),
        ["graphs"],
    ),
    "an evaluation": (failed(BIG, Tensor(512, "h"), stack=(MODULE, EVALUATE, MAIN)), ["no_grad"]),
    "an optimizer with lists of tensors": (
        failed(BIG, Tensor(2048, "exp_avg", Category.OPTIMIZER_STATE), stack=(ADAM, STEP)),
        ["foreach", "states"],
    ),
    "a batch": (failed(BIG, Tensor(512, "h")), ["batch", "checkpointing"]),
    "a request larger than everything": (failed(Tensor(64, "w", Category.PARAMETER), requested_mib=900), ["request"]),
    "a variable assigned again": (
        failed(BIG, Tensor(256, "c (train.py:12 in step)", Category.OTHER), stack=(STEP, MAIN)),
        ["assigned_again"],
    ),
    "other tensors": (failed(Tensor(900, "table", Category.OTHER), stack=(MAIN,)), ["variables"]),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_each_cause_has_its_remedy(name: str) -> None:
    held, expected = REMEDIES[name]
    assert [kind for kind in kinds(held) if kind in expected or not expected] == expected


BLOCK = CallSite("/home/ana/model.py", 57, "forward")
TENSOR = CallSite("/venv/lib/python3.11/site-packages/torch/_tensor.py", 631, "backward")
IN_FORWARD, IN_BACKWARD = "h (model.py:55, 57 in forward)", "self (_tensor.py:631 in backward)"
KEEPERS = IN_FORWARD, IN_BACKWARD, "loss (train.py:12 in step)", "losses[2] (train.py:40 in main)"
KEPT = {
    "in a forward pass": ((BLOCK, MODULE, STEP, MAIN), "", ("", *KEEPERS[1:])),
    "in a backward pass": ((ENGINE, TENSOR, STEP, MAIN), "AddmmBackward0", (IN_FORWARD, "", *KEEPERS[2:])),
    "in no pass": ((STEP, MAIN), "", KEEPERS),
}


@pytest.mark.parametrize("name", KEPT)
def test_variables_of_the_running_pass_are_not_what_keeps_its_graph(name: str) -> None:
    stack, node, kept_by = KEPT[name]
    held = failed(*(Tensor(64, "", kept_by=keeper) for keeper in KEEPERS), stack=stack, backward_node=node)
    assert held.look is not None
    assert held.failure is not None
    inventory = as_activations(held.look, held.failure).inventory
    assert inventory is not None
    assert tuple(storage.kept_by for storage in inventory.storages) == kept_by


def test_neither_small_tensors_nor_those_of_the_running_pass_are_advised_to_be_deleted() -> None:
    tensors = [
        Tensor(900, "table", Category.OTHER),
        Tensor(300, "mask (model.py:57 in forward)", Category.OTHER),
        Tensor(8, "ids (train.py:12 in step)", Category.OTHER),
    ]
    analysis = analysis_of(failed(*tensors, requested_mib=64, free_mib=8, stack=(BLOCK, MODULE, STEP, MAIN)))
    assert analysis is not None
    (remedy,) = analysis.remedies
    assert (remedy.kind, remedy.bytes) == ("variables", 908 * MIB)
    assert remedy.text.endswith(": table.")


def test_every_rule_has_a_case() -> None:
    tried = {kind for _, expected in REMEDIES.values() for kind in expected} | {"limit"}
    assert tried == {rule.kind for rule in RULES}


def test_remedies_come_in_the_order_of_their_effort() -> None:
    held = failed(
        BIG,
        Tensor(512, "model.weight.grad", Category.GRADIENT),
        Tensor(2048, "exp_avg", Category.OPTIMIZER_STATE),
        Tensor(512, "h"),
        unused_mib=900,
    )
    assert kinds(held) == ["stuck", "gradients", "batch", "checkpointing", "states"]


def test_a_small_request_on_a_device_that_others_hold_is_not_the_one_to_split() -> None:
    held = failed(requested_mib=16, free_mib=0, outside_mib=79 * 1024, stack=(APPLY, MAIN))
    assert kinds(held) == ["others"]
    holders = sections_of(held)[1]
    assert "PyTorch had reserved nothing" in holders.sentences[0]


def test_a_remedy_is_enough_when_it_covers_what_was_missing() -> None:
    grads = Tensor(100, "model.weight.grad", Category.GRADIENT)
    for requested_mib, is_enough in ((300, True), (301, False)):
        analysis = analysis_of(failed(BIG, grads, requested_mib=requested_mib))
        assert analysis is not None
        assert (analysis.remedies[0].kind, analysis.remedies[0].is_enough) == ("gradients", is_enough)


def test_where_as_much_was_free_no_remedy_is_measured_by_what_was_missing() -> None:
    *_, remedies = sections_of(failed(BIG, Tensor(512, "model.weight.grad", Category.GRADIENT), free_mib=256))
    assert remedies.title == "What would have made room, the least effort first"
    (row,) = remedies.tables[0].rows
    assert (row.size, row.mark, row.is_good) == ("512 MiB", "", False)


def test_an_error_without_a_look_still_has_its_request() -> None:
    held = replace(failed(Tensor(64, "x")), devices=(), look=None)
    request, holders, _ = sections_of(held)
    assert request.title == "Out of memory: 256 MiB asked for in the forward pass, 56.0 MiB more than was free."
    assert "no time to look at the tensors" in holders.sentences[0]


def test_a_failure_of_a_trace_says_only_what_is_known() -> None:
    """PyTorch's snapshots have neither the device's total nor the thread."""
    request, *_ = sections_of(failed(Tensor(1024, "x"), device_total_bytes=0, thread=""))
    assert "Device 0 had 200 MiB free, and PyTorch had reserved 1.0 GiB." in request.sentences
    assert not any("thread" in sentence for sentence in request.sentences)


def test_the_document_has_the_failure() -> None:
    failure = attach_document(failed(BIG, Tensor(512, "h")))["failure"]
    assert (failure["requested_bytes"], failure["short_bytes"], failure["device"]) == (256 * MIB, 56 * MIB, 0)
    assert failure["stack"][1] == {"file": "/home/ana/train.py", "line": 12, "function": "step"}
    assert [remedy["kind"] for remedy in failure["remedies"]] == ["batch", "checkpointing"]


@pytest.mark.parametrize(
    ("counters", "kind"), [({"num_ooms": 1}, "out_of_memory"), ({"num_alloc_retries": 1}, "retries")]
)
def test_the_findings_leave_the_error_to_the_failure(counters: dict[str, int], kind: str) -> None:
    held = failed(BIG)
    counted = replace(held.devices[0].statistics, **counters)
    held = replace(held, devices=(replace(held.devices[0], statistics=counted),))
    assert not {kind, "room"} & Story((held,)).findings().keys()
    assert kind in Story((replace(held, failure=None),)).findings()


@pytest.mark.parametrize("scale", [1, 1 << 30])
def test_absurd_numbers_end_in_sentences(scale: int) -> None:
    held = failed(Tensor(1, "x"), requested_mib=0, free_mib=0, stack=())
    assert held.failure is not None
    for sizes in ((0, 0, 0), (GIB * scale, 0, 0), (0, GIB * scale, 0), (1, 0, GIB * scale)):
        requested, free, total = sizes
        odd = replace(held.failure, requested_bytes=requested, device_free_bytes=free, device_total_bytes=total)
        assert len(sections_of(replace(held, failure=replace(odd, allowed_bytes=free)))) == 3


@pytest.mark.parametrize(
    ("node", "owned", "is_said"),
    [("MulBackward0", False, True), ("MulBackward0", True, False), ("", False, False)],
    ids=["in backward", "all named", "in forward"],
)
def test_unattributed_memory_in_a_backward_pass_is_said_to_be_gradients(node, owned, is_said):
    segment, storages = row(Tensor(1024, "model.weight", Category.PARAMETER), Tensor(512, "grad", Category.OTHER))
    now = moment((segment, storages if owned else storages[:1]))
    failure = replace(failed(Tensor(1, "x")).failure, backward_node=node)
    _, holders, _ = sections_of(replace(now, failure=failure))
    assert bool(holders.sentences) == is_said
