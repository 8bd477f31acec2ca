"""`gputui attach` on a training program that was started without a probe."""

from __future__ import annotations

import json
from pathlib import Path

from gputui.inject.process.process_facts import workers_of
from tests.attach.children import PASSED_OVER, Python
from tests.attach.command import attach
from tests.attach.small_training import FOR_EVER, TRAINING

RANK = f"""
import os, time, torch
{PASSED_OVER}
print(f"rank {{os.environ['RANK']}}\\n", end="", flush=True)  # in one write: both ranks print to one pipe
launcher = os.getppid()
while not os.path.exists("done") and os.getppid() == launcher:
    time.sleep(0.01)
"""
UNPREPARED = (TRAINING + FOR_EVER).replace("import gputui.probe, ", "import ")


def test_attaching_to_an_unprepared_training_program_describes_it(torch_python: Python) -> None:
    child = torch_python.fork(UNPREPARED)
    child.expect("ready")
    variables = {name: torch_python.environment.get(name, "") for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    pid = str(child.pid)
    status, _, errors = attach(pid, "--once", environment=variables)
    assert status == 1
    assert f"To put it in: gputui attach {pid} --yes" in errors
    status, output, errors = attach(pid, "--once", "--json", environment=variables)
    assert (status, errors) == (0, "")
    document = json.loads(output)
    assert document["pid"] == child.pid
    for device in document["devices"]:
        assert sum(device["tensors"]["by_category"].values()) == device["allocator"]["allocated_bytes"] > 0
    assert attach(pid, "--detach")[::2] == (0, "")
    status, _, errors = attach(pid, "--detach")
    assert status == 1
    assert "has no probe" in errors
    assert child.errors == ""


def test_one_answer_puts_the_probe_into_all_ranks_of_a_job(torch_python: Python) -> None:
    (torch_python.folder / "train.py").write_text(RANK)
    torchrun = str(Path(torch_python.path).parent / "torchrun")
    launcher = torch_python.run([torch_python.path, torchrun, "--standalone", "--nproc-per-node", "2", "train.py"])
    assert {launcher.expect("rank"), launcher.expect("rank")} == {"0", "1"}
    job = ("--job", str(launcher.pid))
    status, _, errors = attach(*job, "--detach")
    assert status == 1
    assert "No process below" in errors
    status, output, errors = attach(*job, "--once", "--yes")
    assert (status, errors) == (0, "")
    assert all(f"rank {rank} of 2" in output for rank in (0, 1))
    assert attach(*job, "--detach")[::2] == (0, "")
    status, output, errors = attach(str(launcher.pid), "--once", "--yes")
    assert status == 0
    assert f"Process {launcher.pid} has launched 2 ranks: these are attached to in its place." in errors
    assert all(f"rank {rank} of 2" in output for rank in (0, 1))
    status, _, errors = attach(str(launcher.pid), "--detach")
    assert (status, errors.count("\n")) == (0, 1), errors
    (torch_python.folder / "done").touch()
    assert launcher.ended() == 0


def test_a_first_rank_that_started_the_second_is_in_its_job(torch_python: Python) -> None:
    """As under Lightning, where it sets its own number after its start."""
    start = """
import os, subprocess, sys
if "LOCAL_RANK" not in os.environ:
    subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": "1", "LOCAL_RANK": "1"})
    os.environ.update(RANK="0", LOCAL_RANK="0")
"""
    child = torch_python.fork(start + RANK, WORLD_SIZE="2")
    assert {child.expect("rank"), child.expect("rank")} == {"0", "1"}
    job = ("--job", str(child.pid))
    status, output, errors = attach(*job, "--once", "--yes")
    assert (status, errors) == (0, "")
    assert all(f"rank {rank} of 2" in output for rank in (0, 1))
    assert attach(*job, "--detach")[::2] == (0, "")
    first, second = map(str, workers_of(child.pid))
    for rank, pid in ((1, second), (0, first)):
        status, output, errors = attach(pid, "--once", "--yes")
        assert (status, errors) == (0, "")
        assert f"rank {rank} of 2" in output
    (torch_python.folder / "done").touch()
    assert child.ended() == 0
