"""Looks at real PyTorch programs: their content, the absence of side effects, and what happens when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.model.attached.target import Look, Mark, Statistics
from gputui.model.attached.tensors import Category
from gputui.model.reading import Problem
from tests.attach.children import DRIVEN, LIMIT_S, Python, wait_until, words_of_gputui
from tests.attach.small_training import FOR_EVER, TRAINING
from tests.scale import scaled, sized

LOOKS = scaled(100, 500)
READINGS = 5
"""So many times the counters come while nothing changes."""
LOOKS_LEAVE_AT_MOST = LOOKS // 2
"""References that the probe may hold in texts of freed storages; a leak leaves one a look."""

BROKEN = """
    from gputui.probe.inventory import inventory
    inventory.take_inventory = lambda *_: 1 / 0
"""


@pytest.mark.every_torch
def test_a_look_describes_a_training_loop(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + FOR_EVER, **DRIVEN)
    device = child.expect("ready")
    with child.attach() as client:
        look, statistics = client.look(), client.statistics()
        greeting = client.greeting
    names = {storage.owner: storage.category for storage in look.inventory.storages}
    assert names["model.0.weight"] is Category.PARAMETER
    assert look.inventory.is_of_one_moment
    assert look.cost.pause_ms > 0
    assert greeting.torch
    assert greeting.is_cuda_initialized == (device == "cuda")
    if device == "cuda":
        assert [device.index for device in greeting.devices] == [0, 1]
        assert all(device.uuid.startswith("GPU-") for device in greeting.devices)
        segments = [segment for segment in look.map.segments if segment.device == 0]
        assert statistics.devices[0].reserved_bytes == sum(segment.size_bytes for segment in segments)
        live = {block.address for segment in segments for block in segment.blocks if block.state == "active_allocated"}
        assert {storage.address for storage in look.inventory.storages if storage.device == 0} <= live
    else:
        assert (look.map, statistics.devices) == (None, ())


def test_looking_does_not_initialise_cuda(torch_python: Python) -> None:
    child = torch_python.fork(
        """
        import gputui.probe, torch, os
        print("ready", flush=True)
        while not os.path.exists("done"):
            pass
        print("initialised", torch.cuda.is_initialized(), flush=True)
        """
    )
    child.expect("ready")
    with child.attach() as client:
        for how in ("", "walk", "scan"):
            assert client.look(how).map is None
        assert client.statistics().devices == ()
        assert not client.greeting.is_cuda_initialized
    (torch_python.folder / "done").touch()
    assert child.expect("initialised") == "False"


@pytest.mark.long
def test_many_looks_leak_no_references_or_memory(torch_python: Python, record_property) -> None:
    record_property("count", f"{LOOKS} looks")
    child = torch_python.fork(
        TRAINING
        + """
    import os, time
    counts = lambda: [sys.getrefcount(value) for value in (None, True, False, 0, 1, (), "")]

    def report(name):
        while not os.path.exists(name):
            step()
            time.sleep(0.005)
        print(name, *counts(), flush=True)

    report("warm")
    report("done")
        """
    )
    child.expect("ready")
    with child.attach() as client:
        for _ in range(LOOKS // 10):
            client.look()
        (torch_python.folder / "warm").touch()
        before, anonymous_before = child.expect("warm").split(), child.anonymous_bytes()
        for _ in range(LOOKS):
            client.look()
        (torch_python.folder / "done").touch()
        after = child.expect("done").split()
        anonymous_after = child.anonymous_bytes()
    drift = [abs(int(one) - int(other)) for one, other in zip(before, after, strict=True)]
    assert max(drift) < LOOKS_LEAVE_AT_MOST, drift
    assert anonymous_after - anonymous_before < 4 * 1024**2
    assert child.ended() == 0


def test_a_look_when_changed_waits_for_a_change(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    import os, time
    while not os.path.exists("change"):
        time.sleep(0.001)
    kept = torch.ones(1000, device=device)
    gputui.probe.mark("changed")
    while True:
        time.sleep(0.001)
        """
    )
    device = child.expect("ready")
    with child.attach() as client:
        first = client.look()
        client.ask_look(when="changed")
        if device == "cuda":
            client.subscribe(0.1)
            assert {type(client.receive(LIMIT_S)) for _ in range(READINGS)} == {Statistics}
            client.subscribe(None)
        (torch_python.folder / "change").touch()
        seen: list[object] = []
        while not {Mark, Look} <= {type(message) for message in seen}:
            seen.append(client.receive(LIMIT_S))
    (mark,) = [message for message in seen if isinstance(message, Mark)]
    assert mark.label == "changed"
    assert mark.time >= first.time


def test_an_exception_from_a_signal_handler_reaches_the_program(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    import signal
    from gputui.probe.inventory import inventory

    def out_of_time(number, frame):
        raise TimeoutError("mine")

    def slow(*_):
        signal.raise_signal(signal.SIGALRM)
        return {}

    signal.signal(signal.SIGALRM, out_of_time)
    original, inventory.take_inventory = inventory.take_inventory, slow
    try:
        while True:
            step()
    except TimeoutError as error:
        inventory.take_inventory = original
        print("caught", error, flush=True)
    """
        + FOR_EVER,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        assert "A signal handler of the program interrupted the look" in client.look().problems[0].text
        assert child.expect("caught") == "mine"
        assert client.look().problems == ()


def test_an_exception_inside_a_look_does_not_reach_the_program(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + "    from gputui.probe.inventory import inventory\n    inventory.take_inventory = lambda *_: 1 / 0\n"
        + FOR_EVER
    )
    child.expect("ready")
    with child.attach() as client:
        assert client.look().problems == (Problem("Tensors could not be read: ZeroDivisionError: division by zero"),)


WORKERS = """
    from torch.utils.data import DataLoader, TensorDataset

    def main(context, workers):
        data = TensorDataset(torch.zeros(64, 4))
        for _ in range(workers):
            for (batch,) in DataLoader(data, batch_size=8, num_workers=workers, multiprocessing_context=context):
                pass

    def worker(rank):
        assert rank in (0, 1)

    if __name__ == "__main__":
        main("fork", 2)
        main("spawn", 1)  # each spawned process imports PyTorch again
        {at_night}
        torch.multiprocessing.start_processes(worker, nprocs=2, start_method="fork")
        print("over", flush=True)
"""


@pytest.mark.long
def test_workers_and_multiprocessing_end_normally(torch_python: Python, sockets: Path) -> None:
    workers = WORKERS.format(at_night=sized("pass", "torch.multiprocessing.spawn(worker)"))
    ready = "    import gputui.probe, torch\n    print('ready', flush=True)\n"
    child = torch_python.fork(ready + workers, WHOLE_END="1")
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        client.ask_look("scan", when="changed")
        child.expect("over")
    assert child.ended() == 0
    assert words_of_gputui(child.errors) == []
    wait_until(lambda: not list(sockets.iterdir()), "the end of every socket")
