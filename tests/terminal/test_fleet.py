"""From the table of many machines to a node and back: ssh gets the terminal, and the table is as it was."""

from __future__ import annotations

from pathlib import Path

from tests.fleet.bad_servers import Request, result, serving
from tests.terminal.conftest import GPUTUI, Open
from tests.ui.test_screens import FIVE_SIZES

NODES = [({"instance": f"{name}:10836", "gputui_node": name, "gputui_quantity": "count"}, 8.0) for name in ("n1", "n2")]
SSH = """#!/bin/sh
case "$4" in *install*) task="install gputui on";; *) task="run gputui on";; esac
echo "ssh $1 $2 is asked to $task $3"
read answer
exit $answer
"""


def answers(request: Request) -> None:
    """The same to each query; the names are those of gputui's exporter."""
    is_names = "__name__" in request.query()
    body = b'{"status": "success", "data": ["gputui_device_info"]}' if is_names else result(*NODES)
    request.reply(body)


def test_enter_gives_the_terminal_to_ssh_and_takes_it_back(terminal: Open, tmp_path: Path) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    with serving(answers) as address:
        path = f"PATH={ssh.parent}:$PATH"
        session = terminal(f"{path} exec {GPUTUI} fleet --prometheus {address}")
        session.wait_for("[+] n2")
        session.send("j\r")
        session.wait_for("ssh -t -- is asked to run gputui on n2")
        assert not session.modes[1049]  # the shell's screen
        session.screen.reset()
        session.send("0\n")
        session.wait_for("[+] n1")
        assert session.modes[1049]
        session.send("\r")  # the cursor is where it was
        session.wait_for("ssh -t -- is asked to run gputui on n2")
        session.send("127\n")
        session.wait_for("n2 has no gputui. Install it there?")
        session.wait_for("uv tool install gputui")
        session.wait_until_idle()  # the question has its focus
        session.send("\t")  # from Cancel to Install
        session.wait_until_idle()
        session.send("\r")
        session.wait(lambda: b"ssh -t -- is asked to install gputui on n2" in session.output, "the installation")
        session.send("1\n")
        session.wait_for("Enter goes back to the table.")
        session.send("\n")
        session.wait_for("[+] n1")
        session.send("q")
        assert session.end() == 0


def test_the_table_stands_on_terminals_of_five_sizes(terminal: Open) -> None:
    with serving(answers) as address:
        session = terminal(f"exec {GPUTUI} fleet --prometheus {address}")
        for columns, rows in FIVE_SIZES:
            session.set_size(columns, rows)
            session.wait(lambda last=rows - 1: "Help" in session.screen.display[last], f"the keys in line {rows}")
            session.wait_for("[+] n2")
        session.send("q")
        assert session.end() == 0
