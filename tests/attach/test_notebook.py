"""A notebook's kernel between two cells: every tensor has a name that a person understands, and advice that works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputui.explain.advice.held.keepers import FORGET_OUTPUTS
from gputui.model.attached.owners import Keeper
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import Storage
from gputui.units import MIB
from tests import torches
from tests.attach.children import LIMIT_S, Python
from tests.attach.command import attach
from tests.attach.kernel import Kernel

MEMORY_GIB = 8.0
LOOKS = 10
"""How often to look at most until a look on a busy machine had time for the tensors."""
LARGE_BYTES = MIB
"""Smaller tensors are biases and scalars."""

MODEL = """
    model = torch.nn.Linear(2048, 2048, device="cuda")
    x = torch.randn(2048, 2048, device="cuda")
"""
TRAIN = """
    def train(x):
        hidden = torch.empty(1 << 28, device="cuda")
        return step(hidden)

    def step(h):
        scratch = torch.empty(1 << 27, device="cuda")
        return torch.empty(1 << 32, device="cuda")
"""


@pytest.fixture
def kernel(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Kernel]:
    if cuda_path == torches.NO_CUDA_BUILD:
        pytest.skip("no interpreter in GPUTUI_TEST_TORCH has a CUDA build of PyTorch")
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, memory_gib=MEMORY_GIB))
    kernel = Kernel(python)
    yield kernel
    kernel.close()
    python.end()


def look(kernel: Kernel) -> Look:
    """An automatic look, as users get it without pressing a key, but with time for everything on a busy machine."""
    with kernel.attach() as client:
        client.ask_look(when="changed", pause_s=LIMIT_S)
        result = client.receive(LIMIT_S)
    assert isinstance(result, Look)
    assert result.inventory is not None
    assert result.problems == result.inventory.problems == ()
    assert result.inventory.is_of_one_moment
    return result


def large(look: Look) -> dict[str, Storage]:
    """The device's tensors by name."""
    storages = [storage for storage in look.inventory.storages if storage.device == 0]
    return {storage.owner: storage for storage in storages if storage.size_bytes >= LARGE_BYTES}


def kept_by(kernel: Kernel, keeper: Keeper) -> dict[str, Storage]:
    """What one of the next looks finds, in which all is kept by this; {} if none is such."""
    looks = (large(look(kernel)) for _ in range(LOOKS))
    return next((found for found in looks if {storage.keeper for storage in found.values()} == {keeper}), {})


def owners(kernel: Kernel) -> set[str]:
    return set(large(look(kernel)))


def findings(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """The findings of `gputui attach --once --json`, by kind."""
    status, output, errors = attach(str(kernel.pid), "--once", "--json")
    assert status == 0, errors
    return {finding["kind"]: finding for finding in json.loads(output)["findings"]}


def allocated_bytes(kernel: Kernel) -> int:
    return int(kernel.run("print(torch.cuda.memory_allocated())").output)


def test_between_two_cells_all_tensors_have_the_names_that_the_notebook_gave_them(kernel: Kernel) -> None:
    kernel.run(MODEL)
    kernel.run(
        """
        optimizer = torch.optim.AdamW(model.parameters())
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        """
    )
    between = look(kernel)
    assert set(large(between)) == {
        "model.weight",
        "model.weight.grad",
        "optimizer.state[model.weight].exp_avg",
        "optimizer.state[model.weight].exp_avg_sq",
        "x",
    }
    assert not any(storage.keeper.value for storage in large(between).values())


def test_a_variable_names_a_tensor_before_the_output_that_shows_it(kernel: Kernel) -> None:
    kernel.run(MODEL)
    kernel.run("model(x).detach()")
    assert owners(kernel) == {"model.weight", "x", "Out[3]"}
    kernel.run("y = _3")
    assert owners(kernel) == {"model.weight", "x", "y"}


def test_a_variable_that_a_module_and_a_cell_have_in_common_gets_the_line_of_its_own(
    kernel: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "losses.py").write_text("def step(x):\n    global kept\n    kept = x * 2\n")
    kernel.run(MODEL)
    kernel.run(f"import sys; sys.path.append({str(tmp_path)!r}); import losses; losses.step(model.weight); kept = 0")
    assert owners(kernel) == {"model.weight", "x", "kept (losses.py:3)"}
    kernel.run("kept = model(x); losses.kept = 0")
    assert owners(kernel) == {"model.weight", "x", "kept (cell 4:1)"}
    kernel.run("losses.kept = x.clone()")
    assert owners(kernel) == {"model.weight", "x", "kept"}


@pytest.mark.parametrize("forget", ["del Out[3]", "%reset -f out"])
def test_outputs_that_only_ipython_keeps_are_named_after_its_variables(kernel: Kernel, forget: str) -> None:
    kernel.run(MODEL)
    kernel.run("x * 2")
    kernel.run(forget)
    (kept,) = [storage for storage in large(look(kernel)).values() if storage.keeper is Keeper.NOTEBOOK_OUTPUT]
    assert kept.owner in ("_", "_ (IPython's own copy)")


@pytest.mark.parametrize("cure", ["%xdel _2", FORGET_OUTPUTS])
def test_the_cure_for_outputs_frees_them(kernel: Kernel, cure: str) -> None:
    kernel.run("torch.empty(1 << 28, device='cuda')")
    finding = findings(kernel)["kept_by_output"]
    assert finding["title"] == "Out[2] keeps 1.0 GiB."
    assert cure in finding["remedy"]
    kernel.run(cure)
    assert allocated_bytes(kernel) == 0


def test_an_out_of_memory_error_in_a_cell_keeps_the_locals_of_its_functions(kernel: Kernel) -> None:
    kernel.run(MODEL)
    kernel.run(TRAIN)
    before_bytes = allocated_bytes(kernel)
    assert kernel.run("train(x)").exception == "OutOfMemoryError"
    kept = {owner for owner, storage in large(look(kernel)).items() if storage.keeper is Keeper.NOTEBOOK_EXCEPTION}
    assert kept == {
        "hidden (exception of cell 5, cell 3:3 in train)",
        "scratch (exception of cell 5, cell 3:7 in step)",
    }
    finding = findings(kernel)["kept_by_exception"]
    assert finding["title"] == "The exception of cell 5 keeps the locals of train() and step(): 1.5 GiB."
    assert "hidden (cell 3:3 in train): 1.0 GiB." in finding["evidence"]
    kernel.run(finding["remedy"].removeprefix("To free them, run in a cell: "))
    assert allocated_bytes(kernel) == before_bytes
    assert owners(kernel) == {"model.weight", "x"}


def test_the_exception_that_an_exception_was_raised_from_keeps_its_locals_too(kernel: Kernel) -> None:
    kernel.run(TRAIN)
    kernel.run(
        """
        try:
            train(None)
        except RuntimeError as error:
            raise ValueError("too large") from error
        """
    )
    assert owners(kernel) == {
        "hidden (exception of cell 3, cell 2:3 in train)",
        "scratch (exception of cell 3, cell 2:7 in step)",
    }
    kernel.run(Keeper.NOTEBOOK_EXCEPTION.facts.cure.partition("cell: ")[2])
    assert allocated_bytes(kernel) == 0


def test_what_an_earlier_exception_keeps_after_the_next_one_has_a_name_too(kernel: Kernel) -> None:
    kernel.run(TRAIN)
    kernel.run("train(None)")
    with kernel.attach() as client:
        assert large(client.look()).keys() == {
            "hidden (exception of cell 3, cell 2:3 in train)",
            "scratch (exception of cell 3, cell 2:7 in step)",
        }
        kernel.run("raise ValueError")
        lost = large(client.look())
        scanned = large(client.look("scan"))
        kernel.run("import gc; gc.collect()")
        freed = large(client.look())
    assert {owner.partition(" (exception of cell 3")[0] for owner in lost} == {"hidden", "scratch"}
    assert {storage.keeper for storage in lost.values()} == {Keeper.LOST_EXCEPTION}
    assert {storage.keeper for storage in scanned.values()} <= {Keeper.LOST_EXCEPTION, Keeper.CYCLE}
    assert scanned.keys() == lost.keys()
    assert freed == {}


def test_an_interrupted_cell_keeps_its_model_optimizer_and_activations(kernel: Kernel) -> None:
    kernel.run(
        """
        import time
        def train():
            net = torch.nn.Linear(2048, 2048, device="cuda")
            sgd = torch.optim.SGD(net.parameters(), momentum=0.9)
            net(torch.randn(2048, 2048, device="cuda")).sum().backward()
            sgd.step()
            out = net(torch.randn(2048, 2048, device="cuda"))
            print("trained", flush=True)
            while True:
                time.sleep(0.01)
        """
    )
    request = kernel.begin("train()")
    kernel.wait_for_output("trained")
    with kernel.attach():  # while a viewer is there, the probe remembers names
        assert {"net.weight", "sgd.state[net.weight].momentum_buffer"} < owners(kernel)
        kernel.interrupt()
        assert kernel.finish(request).exception == "KeyboardInterrupt"
        kept = kept_by(kernel, Keeper.NOTEBOOK_EXCEPTION)
    names = {owner.partition(" (exception of cell 3, cell 2:")[0] for owner in kept}
    assert {"net.weight", "net.weight.grad", "sgd.state[net.weight].momentum_buffer", "out"} < names
    kernel.run(Keeper.NOTEBOOK_EXCEPTION.facts.cure.partition("cell: ")[2])
    assert owners(kernel) == set()


@pytest.mark.parametrize(
    ("cell", "kind", "title"),
    [
        ("model = Net(); model", "kept_by_output", "Out[3] keeps 256 MiB."),
        ("optimizer = optimizer or SGD(model.parameters()); model = Net()", "kept_by_optimizer", "optimizer keeps"),
    ],
)
def test_a_model_defined_again_says_what_keeps_the_old_one(kernel: Kernel, cell: str, kind: str, title: str) -> None:
    kernel.run(
        """
        SGD, Net = torch.optim.SGD, lambda: torch.nn.Linear(8192, 8192, device="cuda")
        optimizer, model = None, Net()
        """
    )
    kernel.run(cell)
    kernel.run(cell)
    assert findings(kernel)[kind]["title"].startswith(title)


def test_looks_at_a_resting_kernel_change_nothing_in_it(kernel: Kernel) -> None:
    kernel.run(MODEL)
    kernel.run(TRAIN)
    kernel.run("train(x)")
    with kernel.attach() as client:
        first, second = client.look(), client.look()
    assert large(first) == large(second)
    kernel.run(Keeper.NOTEBOOK_EXCEPTION.facts.cure.partition("cell: ")[2])
    kernel.run("del x, model")
    assert allocated_bytes(kernel) == 0


def test_a_kept_exception_is_found_in_any_program(torch_python: Python) -> None:
    child = torch_python.fork(
        """
        import gputui.probe, sys, torch
        device = "cuda" if torch.cuda.is_available() else "cpu"

        def fail():
            lost = torch.empty(1 << 20, device=device)
            raise ValueError

        def keep():
            try:
                fail()
            except ValueError as error:
                errors.append(error)

        def handle():
            try:
                fail()
            except ValueError:
                print("ready", flush=True)
                sys.stdin.readline()

        errors = []
        keep()
        handle()
        try:
            fail()
        except ValueError as error:
            sys.last_value = error
        errors.clear()
        print("ready", flush=True)
        sys.stdin.readline()
        """
    )
    names = []
    for _ in range(2):
        child.expect("ready")
        with child.attach() as client:
            storages = client.look().inventory.storages
        names.append({(storage.owner, storage.keeper) for storage in storages})
        child.say("")
    assert names == [
        {
            ("lost (exception errors[0], train.py:7 in fail)", Keeper.EXCEPTION),
            ("lost (exception being handled, train.py:7 in fail)", Keeper.EXCEPTION),
        },
        {("lost (last exception, train.py:7 in fail)", Keeper.LAST_EXCEPTION)},
    ]


def test_the_cures_for_a_python_prompt_free_its_last_exception_and_its_last_value(torch_python: Python) -> None:
    child = torch_python.run([torch_python.path, "-i", "-q", "-c", "import gputui.probe, gc, weakref, torch"])

    def names() -> dict[str, Keeper]:
        child.say("print('ready', flush=True)")
        child.expect("ready")
        with child.attach() as client:
            return {storage.owner: storage.keeper for storage in client.look().inventory.storages}

    child.say("torch.ones(1 << 20)")
    assert names() == {"_": Keeper.INTERPRETER_OUTPUT}
    child.say("0")
    child.say("exec('def fail():\\n lost = torch.ones(1 << 20)\\n raise ValueError')")
    child.say("fail()")
    assert names() == {"lost (last exception, <string>:3 in fail)": Keeper.LAST_EXCEPTION}
    child.say(Keeper.LAST_EXCEPTION.facts.cure.removeprefix("To free them: "))
    assert names() == {}
