"""The real program on a terminal of its own, attached to false probes, with keys typed as bytes."""

from __future__ import annotations

import re
import termios
from pathlib import Path
from random import Random

from tests.fuzz.false_probe import FalseProbe
from tests.fuzz.pressing import OBEYED, PRESSES, Figures, random_size
from tests.terminal.conftest import GPUTUI, inherited
from tests.terminal.pty_session import PtySession

TYPED = (
    *("123456" * 4),
    *"abdefghijklmnoprstuvxyzGAIBCMST+-=<>[]{}().,*/ ?",
    *("\r", "\x1b", "\x7f", "\t", "\x0c", "\xff"),
    *(f"\x1b[{letter}" for letter in "ABCDHFZ"),
    *("\x1b[5~", "\x1b[6~", "\x1b[15~"),
)
"""Keys as a terminal sends them, without those that end or suspend the program, and without the palette."""

OURS = re.compile(r"\x1b\[[?>=<]?[0-9;]*[a-zA-Z]|\x1b\[\?[0-9]+\$p|\x1b\]22;[a-z]*\x07|[\r\n\x08]")
"""Any sequence of cursor, colour and mode; those of `OBEYED` are looked for by themselves."""


def run_on_a_terminal(probes: list[FalseProbe], folder: Path, random: Random, figures: Figures) -> None:
    """Attach to the probes, type and resize at random, and quit; raises unless all of that works.

    `--readonly`, because the machine is the real one, and random keys could send signals.
    """
    environment = inherited() | {
        "TERM": "xterm-256color",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    pids = " ".join(str(probe.pid) for probe in probes)
    session = PtySession(f"exec {GPUTUI} attach {pids} --readonly", environment, random_size(random))
    try:
        session.wait(lambda: _is_drawn(session) or session.process.poll() is not None, "the first screen")
        if session.process.poll() is not None:  # no probe could be talked to, and a sentence says why
            assert session.end() == 1, session.text
            assert session.output.startswith(b"gputui: Process "), session.text
            return _check(session.output.decode())
        for _ in range(PRESSES):
            figures.presses["terminal"] += 1
            session.send(random.choice(TYPED))
            session.pump(random.choice((0.0, 0.01, 0.05)))
            if random.random() < 0.1:
                figures.resizes += 1
                session.set_size(*random_size(random))
        session.wait(lambda: all(probe.done.is_set() for probe in probes), "the end of the messages")
        _check_keys(session)
        session.send("\x03")
        assert session.end() == 0, session.text
        assert session.left_behind() == []
    finally:
        session.close()
        figures.written_bytes += len(session.output)
    return _check(session.output.decode())


def _is_drawn(session: PtySession) -> bool:
    return session.modes.get(1049, False) and not _echoes(session)


def _echoes(session: PtySession) -> bool:
    return bool(termios.tcgetattr(session.slave)[3] & termios.ECHO)


def _check_keys(session: PtySession) -> None:
    """Leave what is open, and open the help."""
    session.set_size(120, 40)
    for _ in range(5):  # a filter, a dialog, a screen of the monitor
        session.send("\x1b[27u")  # Escape, without a wait that tells it from the start of a sequence
        session.wait_for_silence(1)
    session.send("?")
    session.wait_for("app.help")


def _check(output: str) -> None:
    rest = OURS.sub("", output)
    assert rest.isprintable(), [text for text in re.findall(".{20}|.+", rest) if not text.isprintable()]
    assert [sequence for sequence in OBEYED if sequence in output] == []
    assert "Traceback" not in output
