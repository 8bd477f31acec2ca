"""What `gputui attach NODE:PID` takes for a machine and a process, before any ssh is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.commands.reach.where import where_of
from gputui.errors import UsageError
from gputui.sources.probe.far import Place, place_of
from tests.attach.command import attach, gputui


def test_a_machine_without_ssh() -> None:
    status, _, errors = attach("alpha:1", "--once", environment={"PATH": "/nowhere"})
    assert status == 1
    assert errors.startswith("gputui: There is no ssh on this machine.")


def test_what_speaks_no_language_of_gputui_s_is_a_sentence(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nprintf 'gptu\\0\\0\\0\\1x and more'\n")
    ssh.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    status, _, errors = attach("alpha:1", "--once", environment=environment)
    assert status == 1
    assert errors.startswith("gputui: Process 1 sent a message that gputui cannot read: not a frame of gputui.")


@pytest.mark.parametrize(
    "word",
    [
        "-oProxyCommand=touch${IFS}x:1",
        "a b:1",
        "a;b:1",
        "$(a):1",
        "a@-b:1",
        ":1",
        "a/b:1",
        "a\n:1",
        "a:",
        "a:-1",
        "a:1 2",
    ],
)
def test_what_is_no_machine_and_process_reaches_no_ssh(word: str) -> None:
    with pytest.raises(UsageError):
        place_of(word)


@pytest.mark.parametrize("node", ["alpha", "me@alpha.example.org", "10.0.0.7", "node_7-b", "[::1]", "me@[fe80::1]"])
def test_names_of_machines(node: str) -> None:
    assert place_of(f"{node}:12") == Place(node, 12)


def test_processes_here_and_elsewhere_are_not_looked_at_together() -> None:
    status, _, errors = attach("alpha:1", "1", "--once")
    assert status == 2
    assert errors.startswith("gputui: One gputui attach looks at processes of this machine or of others.")


def test_of_two_processes_with_the_same_pid_the_second_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    where, pids = where_of(["alpha:1", "beta:1", "beta:2", "alpha:1"])
    assert (where.node, pids) == ("2 nodes", [1, 2])
    sentence = "beta:1 is left out: alpha:1 has the same PID. Attach to it in another terminal."
    assert capsys.readouterr().err == f"gputui: {sentence}\n"


@pytest.mark.parametrize("command", ["step", "snapshot -o x", "whatif"])
def test_other_commands_say_that_they_stay_here(command: str) -> None:
    name, *options = command.split()
    status, _, errors = gputui(name, "alpha:1", *options)
    assert status == 2
    assert errors.startswith("gputui: 'alpha:1' is on another machine, and only `gputui attach` goes there.")
