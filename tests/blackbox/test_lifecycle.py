"""When a program keeps black boxes: under `gputui run`, in ranks and children, and what it imports for that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputui.probe.black_box.observer import NOTHING_TO_START_WITH
from gputui.sources.files.black_box import read
from gputui.sources.probe import listing
from tests.attach.children import PASSED_OVER, Child, Python, wait_until, words_of_gputui
from tests.attach.command import attach
from tests.blackbox.checks import LAST_LINE, check_sums
from tests.blackbox.conftest import PROGRAMS, ended

RUN = [sys.executable, "-m", "gputui", "run"]
FAIL = "x = torch.empty(1 << 40, device='cuda')"

RANK = f"""
import os, time, torch
{PASSED_OVER}
print(f"rank {{os.environ['RANK']}}\\n", end="", flush=True)  # in one write: both ranks print to one pipe
launcher = os.getppid()
while not os.path.exists("done") and os.getppid() == launcher:
    time.sleep(0.01)
torch.cuda.set_device(0)
held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
{FAIL}
"""


@pytest.mark.every_torch
def test_every_rank_of_torchrun_can_be_attached_to_keeps_its_error_and_names_the_file(
    cuda_python: Python, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(RANK)
    torchrun = str(Path(cuda_python.path).parent / "torchrun")
    words = [torchrun, "--standalone", "--nproc-per-node", "2", "train.py"]  # --standalone picks a free port
    launcher = cuda_python.run([*RUN, "--black-box", "kept", *words])
    check_attaching(launcher)
    (tmp_path / "done").touch()
    job = ended(launcher, tmp_path / "kept")
    assert job.status == 1
    named = [path for path in job.boxes if LAST_LINE.format(path) in job.errors]
    assert named  # torchrun ends the other rank, maybe before its last line
    ranks = {read(path).moment.greeting.rank for path in job.boxes}
    assert ranks <= {0, 1}
    for path in job.boxes:
        box = read(path)
        assert box.moment.greeting.world_size == 2
        assert [device.statistics.allocated_bytes for device in box.moment.used_devices] == [1 << 30]
        assert (box.failure.requested_bytes, box.failure.stack[0].line) == (1 << 42, RANK.splitlines().index(FAIL) + 1)
        check_sums(box)


def check_attaching(launcher: Child) -> None:
    """Every rank has a probe, and the launcher's PID leads to them."""
    assert {launcher.expect("rank"), launcher.expect("rank")} == {"0", "1"}

    def ranks() -> dict[int | None, int]:
        return {probe.greeting.rank: probe.pid for probe in listing.list_probes() if probe.greeting}

    wait_until(lambda: {0, 1} <= ranks().keys(), "the probes of both ranks")
    for rank in (0, 1):
        with listing.attach(ranks()[rank]) as client:
            assert (client.greeting.rank, client.greeting.world_size) == (rank, 2)
            assert client.look().inventory is not None
    status, output, _ = attach(str(launcher.pid), "--once")
    assert status == 0
    assert f"The processes that it started: gputui attach --job {launcher.pid}" in output


def test_gputui_run_keeps_nothing_where_it_is_told_to(cuda_python: Python, tmp_path: Path) -> None:
    command = [*RUN, "--no-black-box", cuda_python.path, str(PROGRAMS / "failing.py"), "assigned"]
    job = ended(cuda_python.run(command, XDG_STATE_HOME=str(tmp_path / "state")), tmp_path / "state" / "gputui")
    assert (job.status, job.boxes) == (1, ())
    assert words_of_gputui(job.errors) == []


CHILDREN = {
    "forked before CUDA is used": ("", 2),
    "forked after CUDA was used": ("torch.zeros(1, device='cuda')", 1),
}


@pytest.mark.parametrize("name", CHILDREN)
def test_a_forked_child_writes_nothing_for_its_parent(cuda_python: Python, tmp_path: Path, name: str) -> None:
    before, boxes = CHILDREN[name]
    source = f"""
        import os, torch, gputui.probe
        {before or "pass"}
        def fail():
            try:
                {FAIL}
            except RuntimeError as error:
                return type(error).__name__
        pid = os.fork()
        if pid == 0:
            print("child", fail(), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        print("parent", fail(), flush=True)
    """
    child = cuda_python.fork(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept"))
    job = ended(child, tmp_path / "kept")
    assert (job.status, "parent OutOfMemoryError" in job.output) == (0, True)
    pids = {read(path).moment.pid for path in job.boxes}
    assert len(pids) == len(job.boxes) == boxes
    assert child.pid in pids


def test_an_interrupt_during_the_look_reaches_the_program(cuda_python: Python, tmp_path: Path) -> None:
    source = """
        import os, signal, torch, gputui.probe
        from gputui.probe.black_box import error_look
        torch.zeros(1, device="cuda")
        reading = error_look.device_statistics
        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGINT)
            return reading(*arguments)
        error_look.device_statistics = interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            torch.empty(1 << 40, device="cuda")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    job = ended(cuda_python.fork(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept")), tmp_path / "kept")
    assert (job.status, job.errors) == (0, "")
    assert job.output == "interrupted\n"


def test_without_the_variable_nothing_is_registered(cuda_python: Python, tmp_path: Path) -> None:
    source = """
        import sys, torch, gputui.probe
        torch.zeros(1, device="cuda")
        print("gputui.probe.black_box.observer" in sys.modules, len(torch.cuda._queued_calls), flush=True)
    """
    before = ended(cuda_python.fork(source), tmp_path / "kept").output
    armed = ended(cuda_python.fork(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept")), tmp_path / "kept").output
    (without, calls), (with_it, more_calls) = before.split(), armed.split()
    assert (without, with_it, int(more_calls) - int(calls)) == ("False", "True", 1)


def test_a_program_that_imports_pytorch_later_is_noticed(cuda_python: Python, tmp_path: Path) -> None:
    source = f"""
        import sys
        import gputui.probe
        finders = len(sys.meta_path)
        import torch
        try:
            {FAIL}
        except RuntimeError:
            print(finders - len(sys.meta_path), flush=True)
    """
    job = ended(cuda_python.start(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept")), tmp_path / "kept")
    assert (job.status, job.output.strip(), len(job.boxes)) == (0, "1", 1)


def test_what_the_graph_tells_is_worked_out_beside_the_program(cuda_python: Python, tmp_path: Path) -> None:
    source = """
        import _thread, torch, gputui.probe
        from gputui.probe.black_box import observer, error_look
        from gputui.probe.looks import torch_reader
        observer.STOP_S, error_look.READING_MS, calls = 60.0, 20_000.0, []
        assign = torch_reader.assign_modules
        def noted(*arguments):
            calls.append(_thread.get_ident())
            assign(*arguments)
        torch_reader.assign_modules = noted
        torch.cuda.caching_allocator_alloc(1 << 30)  # has no name, however often one looks
        x = torch.ones(100, device="cuda", requires_grad=True)
        for _ in range(2000):
            x = x * 2
        try:
            torch.empty(1 << 40, device="cuda")
        except RuntimeError:
            print(len(calls), _thread.get_ident() in calls, flush=True)
    """
    child = cuda_python.fork(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept"))
    count, is_in_program = ended(child, tmp_path / "kept").output.split()
    assert (int(count) > 1, is_in_program) == (True, "False")


STARTS = {"before CUDA has begun": "pass", "as CUDA begins": "torch.zeros(1, device='cuda')"}


@pytest.mark.parametrize("name", STARTS)
def test_a_full_device_on_which_cuda_cannot_start_is_said_to_be_held_by_others(
    cuda_python: Python, tmp_path: Path, name: str
) -> None:
    source = f"""
        import torch, gputui.probe
        {STARTS[name]}
        def refused(*_):
            raise RuntimeError("CUDA error: out of memory\\nCUDA kernel errors might be asynchronously reported")
        torch.cuda.mem_get_info = refused
        refused()
    """
    job = ended(cuda_python.fork(source, GPUTUI_BLACK_BOX=str(tmp_path / "kept")), tmp_path / "kept")
    assert (job.status, job.boxes) == (1, ())
    assert job.errors.splitlines()[-1] == NOTHING_TO_START_WITH.rstrip()
