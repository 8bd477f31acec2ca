"""However the monitor ends, the terminal is as it was found and the exit status says how it ended."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.terminal.conftest import GPUTUI, Open

DEMO = f"exec {GPUTUI} --demo"


@pytest.mark.parametrize(
    ("keys", "status"), [("q", 0), ("\x03", 0), ("\x1b[21~", 0)], ids=["q", "the key Ctrl-C", "F10"]
)
def test_a_key_ends_it_well(terminal: Open, keys: str, status: int) -> None:
    session = terminal()
    session.wait_for("Help")
    session.send(keys)
    assert session.end() == status
    assert session.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_ends_it_with_128_and_its_number(terminal: Open, number: signal.Signals) -> None:
    session = terminal()
    session.wait_for("Help")
    session.kill(number)
    assert session.end() == 128 + number
    assert session.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_that_comes_with_the_first_byte_is_no_different(terminal: Open, number: signal.Signals) -> None:
    """The first frame is drawn before Textual, which takes signals from then on, is imported."""
    session = terminal()
    session.wait(lambda: session.modes.get(1049, False), "the alternate screen")
    session.kill(number)
    assert session.end() == 128 + number
    assert session.left_behind() == []


def test_a_modern_terminal_gets_back_what_it_offered(terminal: Open) -> None:
    """One that reports its size in band is also asked for the mouse in pixels."""
    session = terminal(answers=True)
    session.wait_for("Help")
    session.wait(lambda: session.modes.get(1016, False) and session.modes.get(2048, False))
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def test_nohup_is_respected(terminal: Open) -> None:
    session = terminal(f"trap '' HUP; {DEMO}")
    session.wait_for("Help")
    session.kill(signal.SIGHUP)
    session.send("?")
    session.wait_for("app.help")
    session.send("\x03")
    assert session.end() == 0


@pytest.mark.parametrize("shield", ["", "trap '' HUP; "], ids=["with SIGHUP", "without SIGHUP"])
def test_it_ends_with_its_terminal(terminal: Open, shield: str) -> None:
    session = terminal(shield + DEMO)
    session.wait_for("Help")
    session.hang_up()
    assert session.process.wait(60) == 128 + signal.SIGHUP


def test_it_ends_with_its_terminal_while_it_writes_nothing(terminal: Open) -> None:
    session = terminal(f"trap '' HUP; {DEMO}")
    session.wait_for("Help")
    session.send("p")
    session.wait_for("PAUSED")
    session.hang_up()
    assert session.process.wait(60) == 128 + signal.SIGHUP


def test_a_terminal_that_takes_no_more_bytes_does_not_keep_it(terminal: Open) -> None:
    session = terminal(f"{DEMO} --interval 0.1")
    session.wait_for("Help")
    session.kill(signal.SIGTERM)
    assert session.process.wait(60) == 128 + signal.SIGTERM  # and nobody has read what it wrote


def test_bytes_that_are_no_text_are_no_keys(terminal: Open) -> None:
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
from gputui.sources.machine import DemoMachine
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
    ids=["in the sampler's thread", "in the screen's"],
)
def test_a_defect_shows_its_traceback_on_a_whole_terminal(
    terminal: Open, tmp_path, machine: str, keys: str, error: str
) -> None:
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.replace("BROKEN_MACHINE", machine))
    session = terminal(f"exec {sys.executable} {script} 2>{tmp_path}/errors")
    session.wait_for("Help")
    (tmp_path / "now").touch()
    session.send(keys)
    assert session.end() == 1
    assert session.left_behind() == []
    report = (tmp_path / "errors").read_text()
    assert report.startswith("Traceback (most recent call last):\n")
    assert report.endswith(f"{error}\n")
