"""`gputui whatif PID`: a step of a running program, recorded and replayed."""

from __future__ import annotations

import json

from gputui.cli import main
from tests.attach.test_step import PROGRAMS, start


def test_a_process_is_recorded_only_after_an_answer_and_its_step_is_replayed(torch_python, capsys):
    child, peak = start(torch_python, PROGRAMS["lora"])
    arguments = ["whatif", str(child.pid), "--set", "max_split_size_mb:64", "--json"]
    assert main(arguments) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"Record a step of process {child.pid}?" in error
    assert "confirm with --yes" in error
    status = main([*arguments, "--yes"])
    output = capsys.readouterr()
    if not peak:
        assert status == 1
        assert "No step of process" in output.err
        return
    assert status == 0, output.err
    document = json.loads(output.out)
    assert document["baseline"]["known"] == "exact"
    assert document["baseline"]["peak_allocated_bytes"] >= peak
    assert document["cases"][0]["settings"] == {"max_split_size_mb": "64"}


def test_a_pid_without_a_process_is_refused_with_a_reason(capsys):
    assert main(["whatif", "1234567890", "--yes"]) in {1, 2}
    assert "There is no process 1234567890 here." in capsys.readouterr().err
