"""`gputui attach` on real processes: the list, the JSON document, the live lines, and the error messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.cli import main
from gputui.sources.probe import listing
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import Python, as_another_user
from tests.attach.command import attach, gputui
from tests.attach.small_training import ASLEEP, FOR_EVER, TRAINING

EVERY_DEVICE = """
    tensors = [torch.ones(1, device=number) for number in range(torch.cuda.device_count())]
    print("on every device", flush=True)
"""
WAITING = "import gputui.probe\nprint('ready', flush=True)\ninput()"


def test_the_json_document_describes_a_training_loop(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + FOR_EVER, RANK="3", WORLD_SIZE="8")
    device = child.expect("ready")
    variables = {name: torch_python.environment.get(name, "") for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, output, errors = attach(str(child.pid), "--once", "--json", environment=variables)
    assert (status, errors) == (0, "")
    document = json.loads(output)
    assert document["schema"] == "gputui.attach/1"
    assert (document["pid"], document["rank"], document["world_size"]) == (child.pid, 3, 8)
    assert document["host"]["rss_bytes"] > 10**8
    assert document["cost"]["pause_ms"] > 0
    if device == "cpu":
        assert document["devices"] == []
        assert document["host"]["cpu_tensor_bytes"] > 0
        return
    (first,) = document["devices"]  # of two: the process holds nothing on the other
    assert (first["index"], first["nvml_index"]) == (0, 0)
    assert not any("device 1" in sentence for sentence in document["problems"])
    assert first["nvml"]["process_used_bytes"] - first["allocator"]["reserved_bytes"] == first["outside_torch_bytes"]
    assert sum(first["composition"].values()) == first["allocator"]["reserved_bytes"] > 0
    assert sum(first["tensors"]["by_category"].values()) == first["allocator"]["allocated_bytes"] > 0
    assert first["empty_cache"]["releasable_bytes"] == first["composition"]["releasable_bytes"]
    assert "model.0.weight" in [name for group in first["tensors"]["groups"] for name in group["names"]]
    weight_and_bias = (64 * 256 + 256) * 4
    linear = first["tensors"]["by_module"]["model.0"]
    assert (linear["parameter"], linear["gradient"]) == (weight_and_bias, weight_and_bias)
    assert linear["optimizer_state"] == 2 * weight_and_bias
    others = [held for name, held in first["tensors"]["by_module"].items() if name not in ("model.0", "model.2")]
    assert all(set(held) <= {"activation"} for held in others), others  # the look may be in the middle of a step
    room = next(finding for finding in document["findings"] if finding["kind"] == "room")
    assert (room["weight"], room["device"], room["remedy"]) == ("fact", 0, "")
    assert room["title"].startswith("The largest tensor that fits now is ")
    assert room["bytes"] > 0
    assert document["failure"] is None


def test_devices_are_found_through_cuda_visible_devices(cuda_python: Python) -> None:
    variables = {name: cuda_python.environment[name] for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    uuids = [device["uuid"] for device in json.loads(gputui("--once", "--json", environment=variables)[1])["devices"]]
    for visible, expected in {"1,0": [1, 0], uuids[1]: [1]}.items():
        child = cuda_python.fork(TRAINING + EVERY_DEVICE + ASLEEP, CUDA_VISIBLE_DEVICES=visible)
        child.expect("on every device")
        document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
        assert [device["nvml_index"] for device in document["devices"]] == expected
        printed = attach(str(child.pid), "--once", environment=variables)[1]
        differing = [(index, gpu) for index, gpu in enumerate(expected) if index != gpu]
        assert all(f"cuda:{index} (GPU {gpu})" in printed for index, gpu in differing), printed
        assert ("(GPU" in printed) == bool(differing)
        (listed,) = [line for line in attach(environment=variables)[1].splitlines() if line.startswith(f"{child.pid} ")]
        assert all(f"cuda:{index} (GPU {gpu}) " in listed for index, gpu in differing), listed
        child.end()


def test_the_list_names_the_processes_with_a_probe(python: Python) -> None:
    first, second = python.start(WAITING, RANK="1", WORLD_SIZE="2"), python.start(WAITING)
    first.expect("ready")
    second.expect("ready")
    status, output, _ = attach()
    assert status == 0
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert "1/2" in lines[str(first.pid)]
    assert lines[str(second.pid)].endswith("train.py")
    processes = json.loads(attach("--json")[1])["processes"]
    assert {first.pid, second.pid} <= {process["pid"] for process in processes}
    first.end()
    second.end()
    assert not {str(first.pid), str(second.pid)} & set(attach()[1].split())


def test_live_lines_are_printed_until_the_process_ends(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + FOR_EVER)
    device = child.expect("ready")
    viewer = torch_python.run([sys.executable, "-m", "gputui", "attach", str(child.pid)], LD_PRELOAD="")
    viewer.expect(f"{child.pid}  ")
    line = viewer.expect("") + viewer.expect("")
    assert ("cuda:0  allocated" in line) == (device == "cuda")
    child.process.send_signal(signal.SIGKILL)
    assert viewer.ended() == 0
    assert f"Process {child.pid} was killed by SIGKILL" in viewer.errors


def test_a_process_without_a_probe_is_refused_with_a_remedy(python: Python) -> None:
    child = python.start("print('ready', flush=True)\ninput()")
    child.expect("ready")
    status, output, errors = attach(str(child.pid), "--once")
    assert (status, output) == (1, "")
    assert f"has no probe. To put it in: gputui attach {child.pid} --yes. Start it with `gputui run train.py" in errors


@pytest.mark.parametrize("command", ["step", "snapshot"])
def test_attaching_is_not_advised_where_it_would_be_refused(command: str, tmp_path: Path) -> None:
    sleeping = subprocess.Popen(["sleep", "600"], env={**os.environ, "GPUTUI_PROBE": "1"})
    try:
        words = [sys.executable, "-m", "gputui", command, str(sleeping.pid), "-o", str(tmp_path / "new")]
        refused = subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        sleeping.kill()
        sleeping.wait()
    assert refused.returncode == 1
    assert "--yes" not in refused.stderr
    assert "sleep" in refused.stderr, refused.stderr


def test_a_zombie_and_a_missing_process_are_refused_with_a_reason() -> None:
    gone = subprocess.Popen(["true"])
    assert "has ended: only its exit status is left" in _after_exit(gone)
    gone.wait()
    status, _, errors = attach(str(gone.pid))
    assert status == 1
    assert f"There is no process {gone.pid} here." in errors


def test_a_stopped_process_is_refused_with_a_remedy(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    child.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    status, _, errors = attach(str(child.pid))
    assert status == 1
    assert f"is stopped (Ctrl-Z or a debugger), and cannot answer. Continue it first: kill -CONT {child.pid}." in errors
    assert "is stopped" in attach()[1]


@pytest.mark.root
def test_a_process_of_another_user_is_refused_with_a_remedy(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    remedy = f"Attach as that user, or as root: sudo gputui attach {child.pid}."
    with as_another_user(), pytest.raises(CannotAttachError, match=f"Process {child.pid} belongs to root. {remedy}"):
        listing.attach(child.pid)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["x"], "'x' is not a PID"),
        (["1", "--onc"], "no option --onc"),
        (["--once"], "--once needs a process to look at. Use gputui attach PID --once."),
        (["--once", "--json"], "--once needs a process to look at."),
        (["--record", "my x"], "--record needs a process to record. Use gputui attach PID --record 'my x'."),
        (["1", "--once", "--json", "--record", "x.gputui"], "--record and --once exclude each other"),
    ],
    ids=["no PID", "a wrong option", "once alone", "once and json alone", "record alone", "once and record"],
)
def test_a_wrong_command_line_is_refused_with_a_reason(words: list[str], sentence: str, capsys) -> None:
    assert main(["attach", *words]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert sentence in errors


def _after_exit(process: subprocess.Popen[bytes]) -> str:
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert "Z" in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]
    return attach(str(process.pid))[2]
