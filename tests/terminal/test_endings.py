"""However the monitor ends, it restores the terminal and its exit status says how it ended."""

from __future__ import annotations

import shlex
import signal
import sys

import pytest

from tests.terminal.conftest import GPUTUI, Open

DEMO = f"exec {GPUTUI} --demo"


@pytest.mark.parametrize(
    ("keys", "status"), [("q", 0), ("\x03", 0), ("\x1b[21~", 0)], ids=["q", "Ctrl-C as a key", "F10"]
)
def test_a_quit_key_exits_with_status_0(terminal: Open, keys: str, status: int) -> None:
    session = terminal()
    session.wait_for("Help")
    session.send(keys)
    assert session.end() == status
    assert session.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_exits_with_128_plus_its_number(terminal: Open, number: signal.Signals) -> None:
    session = terminal()
    session.wait_for("Help")
    session.kill(number)
    assert session.end() == 128 + number
    assert session.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_during_the_first_frame_exits_with_128_plus_its_number(terminal: Open, number: signal.Signals) -> None:
    """The first frame is drawn before Textual is imported; Textual handles signals only from then on."""
    session = terminal()
    session.wait(lambda: session.modes.get(1049, False), "the alternate screen")
    session.kill(number)
    assert session.end() == 128 + number
    assert session.left_behind() == []


def test_modes_of_a_modern_terminal_are_reset_on_exit(terminal: Open) -> None:
    """A terminal that supports in-band resize reports is also asked for mouse positions in pixels."""
    session = terminal(answers=True)
    session.wait_for("Help")
    session.wait(lambda: session.modes.get(1016, False) and session.modes.get(2048, False))
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_an_ignored_sighup_does_not_end_the_monitor(terminal: Open) -> None:
    session = terminal(f"trap '' HUP; {DEMO}")
    session.wait_for("Help")
    session.kill(signal.SIGHUP)
    session.send("?")
    session.wait_for("app.help")
    session.send("\x03")
    assert session.end() == 0


@pytest.mark.parametrize("shield", ["", "trap '' HUP; "], ids=["with SIGHUP", "without SIGHUP"])
def test_a_hang_up_ends_the_monitor(terminal: Open, shield: str) -> None:
    session = terminal(shield + DEMO)
    session.wait_for("Help")
    session.hang_up()
    assert session.exit_status() == 128 + signal.SIGHUP


def test_a_hang_up_ends_a_paused_monitor(terminal: Open) -> None:
    session = terminal(f"trap '' HUP; {DEMO}")
    session.wait_for("Help")
    session.send("p")
    session.wait_for("PAUSED")
    session.hang_up()
    assert session.exit_status() == 128 + signal.SIGHUP


def test_sigterm_ends_the_monitor_while_its_output_is_blocked(terminal: Open) -> None:
    session = terminal(f"{DEMO} --interval 0.1")
    session.wait_for("Help")
    session.kill(signal.SIGTERM)
    assert session.exit_status() == 128 + signal.SIGTERM  # although nothing has read its output


def test_invalid_utf8_input_is_ignored(terminal: Open) -> None:
    session = terminal()
    session.wait_for("Help")
    session.send(b"\xff\xfe\xc3?")
    session.wait_for("app.help")
    session.send("\x03")
    assert session.end() == 0


BROKEN = """
import sys
from pathlib import Path
from gputui.settings import Settings
from gputui.sources.demo_machine import DemoMachine
from gputui.ui.app import GputuiApp

class BrokenMachine(DemoMachine):
    def look(self, attention, interval_s):
        if Path(__file__).with_name("now").exists():
            secret = "hunter2"
            raise ZeroDivisionError("a defect")
        return super().look(attention, interval_s)

def action_pause(app):
    raise LookupError("another defect")

GputuiApp.action_pause = action_pause
sys.exit(GputuiApp(Settings(interval_s=0.3), BROKEN_MACHINE(), DemoMachine).run_to_end(mouse=True))
"""


@pytest.mark.parametrize(
    ("machine", "keys", "error"),
    [("BrokenMachine", "", "ZeroDivisionError: a defect"), ("DemoMachine", "p", "LookupError: another defect")],
    ids=["in the sampler's thread", "in the screen's thread"],
)
def test_a_crash_restores_the_terminal_and_prints_its_traceback(
    terminal: Open, tmp_path, machine: str, keys: str, error: str
) -> None:
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.replace("BROKEN_MACHINE", machine))
    session = terminal(f"exec {shlex.quote(sys.executable)} {script} 2>{tmp_path}/errors")
    session.wait_for("Help")
    (tmp_path / "now").touch()
    session.send(keys)
    assert session.end() == 1
    assert session.left_behind() == []
    report = (tmp_path / "errors").read_text()
    assert report.startswith("Traceback (most recent call last):\n")
    assert report.endswith(f"{error}\n")
