"""The terminal of the benchmarks, tested with programs whose output, answers and exit are known."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys

import pytest

from benchmarks.terminal import Terminal, usage_of
from tests.hanging import HANGS_S

UNTIL_A_KEY = "stty raw -echo; head -c 1 >/dev/null"


def shell(script: str) -> Terminal:
    return Terminal(["sh", "-c", script], 80, 24)


def read_to_end(terminal: Terminal) -> bytes:
    data = b""
    with contextlib.suppress(EOFError):
        while True:
            data += terminal.read(30)
    return data


def test_every_byte_is_counted() -> None:
    with shell("printf '%01000d' 7; printf '\\033[1mx\\033[0m'") as terminal:
        assert len(read_to_end(terminal)) == 1000 + 9
        assert terminal.written_bytes == 1000 + 9


def test_the_terminal_has_its_size_and_kind() -> None:
    with shell("stty size; echo $TERM") as terminal:
        assert read_to_end(terminal).split() == [b"24", b"80", b"xterm-256color"]


def test_text_is_found_among_escape_sequences() -> None:
    with shell(f"sleep 0.2; printf '\\033[31m700\\033[0m\\033[5;1H W'; {UNTIL_A_KEY}") as terminal:
        seconds = terminal.wait_for(re.compile(rb"700 W"), HANGS_S)
        assert seconds is not None
        assert terminal.first_output_s is not None
        assert 0.2 <= terminal.first_output_s <= seconds


def test_text_that_never_appears_is_not_found() -> None:
    with shell(f"echo something else; {UNTIL_A_KEY}") as terminal:
        assert terminal.wait_for(re.compile(rb"700 W"), 0.2) is None


@pytest.mark.parametrize(
    ("asks", "key", "bytes_sent"),
    [
        pytest.param("", "down", b"\x1b[B", id="cursor key"),
        pytest.param("\\033[?1h", "down", b"\x1bOB", id="application cursor key"),
        pytest.param("", "q", b"q", id="letter"),
        pytest.param("\\033[6n", "", b"\x1b[1;1R", id="a query is answered"),
    ],
)
def test_keys_and_answers_match_those_of_a_terminal(asks: str, key: str, bytes_sent: bytes) -> None:
    count = len(bytes_sent)
    script = f"stty raw -echo; printf '{asks}ready'; head -c {count} | od -An -tx1; printf done"
    with shell(script) as terminal:
        terminal.wait_for(re.compile(rb"ready"), HANGS_S)
        terminal.press(key)
        assert bytes_sent.hex() in read_to_end(terminal).replace(b" ", b"").decode()


def test_usage_includes_all_descendants() -> None:
    burn = (
        "import sys, time; held = bytearray(50 << 20)\n"
        "while time.process_time() < 0.3: pass\n"
        "print('burnt', flush=True); sys.stdin.read(1)"
    )
    with Terminal(["sh", "-c", f'stty raw -echo; {shlex.quote(sys.executable)} -c "{burn}"; :'], 80, 24) as terminal:
        assert terminal.wait_for(re.compile(rb"burnt"), HANGS_S) is not None
        usage = terminal.usage()
    assert usage.cpu_s >= 0.28
    assert usage.resident_bytes >= 50 << 20


def test_an_ended_process_has_no_usage() -> None:
    with shell("true") as terminal:
        read_to_end(terminal)
        terminal.close()
        assert usage_of(terminal._pid).resident_bytes == 0


def test_closing_returns_the_exit_status() -> None:
    terminal = shell("stty raw -echo; printf ready; head -c 1 >/dev/null; exit 3")
    terminal.wait_for(re.compile(rb"ready"), HANGS_S)
    assert terminal.close() == 3


def test_a_program_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.terminal._QUIT_LIMIT_S", 0.2)
    assert shell("trap '' HUP TERM; sleep infinity & wait; wait").close() == -9
