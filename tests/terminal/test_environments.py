"""Terminals, locales and redirections that the monitor may be started with."""

from __future__ import annotations

import pytest
from pyte.screens import Char

from tests.plugins.left_out import READABLE_PATH
from tests.terminal.conftest import GPUTUI, Open
from tests.terminal.pty_session import PtySession

EVERY_SCREEN = (
    "?",
    "\x1b",
    "t",
    "o",
    "\x1b",
    "/gpu\r",
    "\x1b",
    "K",
    "\x1b",
    "\x10",
    "\x1b",
    "\r",
    "\x1b",
    "\t\r",
    "\x1b",
)


READABLE = [pytest.mark.needs(READABLE_PATH), pytest.mark.place]


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"LC_ALL": "C"}, marks=READABLE),
        {"LANG": "POSIX"},
        pytest.param({"LC_ALL": "de_DE.ISO-8859-1@euro"}, marks=READABLE),
        {"PYTHONIOENCODING": "latin-1"},
        {"TERM": "linux"},
        {"GPUTUI_ASCII": "1"},
    ],
    ids=lambda variables: " ".join(f"{name}={value}" for name, value in variables.items()),
)
def test_it_draws_in_ascii_where_the_terminal_or_locale_requires_it(terminal: Open, variables: dict[str, str]) -> None:
    session = terminal(**variables)
    session.wait_for("Help")
    if variables == {"LC_ALL": "C"}:  # one filter serves all these cases, so one case visits every screen
        for keys in EVERY_SCREEN:
            session.send(keys)
            session.wait_for_silence(1)
    session.send("\x03")
    assert session.end() == 0, session.text
    assert session.output.isascii()


@pytest.mark.parametrize("variables", [{"LANG": None}, {"TERM": "tmux-256color"}], ids=["no LANG", "tmux"])
def test_it_draws_unicode_elsewhere(terminal: Open, variables: dict[str, str | None]) -> None:
    session = terminal(**variables)
    session.wait_for("°C")


@pytest.mark.parametrize("kind", ["dumb", "unknown", None])
def test_an_unsupported_terminal_type_is_an_error_with_a_remedy(terminal: Open, kind: str | None) -> None:
    session = terminal(TERM=kind)
    assert session.end() == 2
    assert "cannot show a full-screen program. Set TERM" in session.words
    assert session.modes == {}


@pytest.mark.parametrize(
    ("redirection", "stream"),
    [("</dev/null", "input"), ("<&-", "input"), (">/dev/null", "output"), (">&-", "output")],
)
def test_without_a_terminal_the_error_names_the_alternative(terminal: Open, redirection: str, stream: str) -> None:
    session = terminal(f"exec {GPUTUI} --demo {redirection}")
    assert session.end() == 2
    assert f"standard {stream} is not one. To print" in session.words


@pytest.mark.parametrize("redirection", ["2>/dev/null", "2>&-"])
def test_it_draws_when_standard_error_is_redirected_or_closed(terminal: Open, redirection: str) -> None:
    session = terminal(f"exec {GPUTUI} --demo {redirection}")
    session.wait_for("Help")
    session.send("q")
    assert session.end() == 0
    assert session.left_behind() == []


def cells(session: PtySession) -> list[list[Char]]:
    """The cells of the screen, line by line."""
    return [list(line.values()) for line in session.screen.buffer.values()]


def test_gputui_color_overrides_no_color(terminal: Open) -> None:
    session = terminal(NO_COLOR="1", GPUTUI_COLOR="256")
    session.wait_for("Help")
    session.wait(lambda: len({cell.fg for line in cells(session) for cell in line}) > 2, "colours")


@pytest.mark.parametrize(
    ("variables", "is_colored"),
    [({}, True), ({"TERM": "dumb"}, False), ({"TERM": "dumb", "GPUTUI_COLOR": "16"}, True)],
    ids=["a terminal with colours", "one without", "one without, with colours by a setting"],
)
def test_printed_text_has_colours_where_the_terminal_has(
    terminal: Open, variables: dict[str, str], *, is_colored: bool
) -> None:
    session = terminal(f"exec {GPUTUI} --demo --once", **variables)
    assert session.end() == 0
    assert (b"\x1b[" in session.output) == is_colored


def is_marked(line: list[Char]) -> bool:
    """Whether the whole line is in reverse video."""
    return len(line) >= 80 and all(cell.reverse for cell in line)


@pytest.mark.parametrize("theme", ["terminal", "nord"])
def test_no_color_disables_every_colour(terminal: Open, theme: str) -> None:
    session = terminal(NO_COLOR="1", GPUTUI_THEME=theme)
    session.wait_for("Help")
    session.wait(lambda: any(is_marked(line) for line in cells(session)), "the cursor line")
    assert {(cell.fg, cell.bg) for line in cells(session) for cell in line} == {("default", "default")}
