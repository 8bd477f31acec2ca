"""`terminal(...)` starts a program on a pseudo-terminal; programs still running when the test ends are killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.surroundings import surroundings
from tests.terminal.pty_session import GPUTUI, PtySession

Open = Callable[..., PtySession]


def inherited() -> dict[str, str]:
    """What a program on a terminal gets of this process's environment: nothing that changes what it draws."""
    return {name: value for name, value in surroundings(os.environ).items() if not name.startswith("GPUTUI_")}


@pytest.fixture
def plain_environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment without any variable that changes what is drawn."""
    source = str(Path(__file__).resolve().parents[2])
    return inherited() | {
        "TERM": "xterm-256color",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": source,
    }


@pytest.fixture
def terminal(plain_environment: dict[str, str]) -> Iterator[Open]:
    """Runs a shell command on a new terminal; a variable set to None is removed from its environment."""
    sessions: list[PtySession] = []

    def start(
        command: str = f"exec {GPUTUI} --demo",
        *,
        size: tuple[int, int] = (80, 24),
        answers: bool = False,
        **variables: str | None,
    ) -> PtySession:
        environment = {name: value for name, value in (plain_environment | variables).items() if value is not None}
        sessions.append(PtySession(command, environment, size, answers=answers))
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()
