"""Shows a recording: played on the attach screens, as lines, or its last moment as a report or a document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.commands.attach import lines as text
from gputui.commands.machine.monitor import fit_terminal, show
from gputui.output import narrate, put
from gputui.settings import Settings

if TYPE_CHECKING:
    from gputui.model.attached.moment import TargetMoment
    from gputui.sources.files.recording.reader import Recording
    from gputui.ui.app import GputuiApp


def play(path: Path, settings: Settings) -> int:
    """Play a recording on the attach screens."""
    from gputui.sources.files.recording.player import Player, ReplayFeed

    recording = _open(path)
    settings = fit_terminal(settings)
    player = Player(recording)

    def prepare(app: GputuiApp) -> None:
        app.attached.is_replay = True
        app.attached.first_pids = tuple(recording.greetings)
        app.attached.first_notices = recording.notices

    return show(settings, player.machine(), lambda: lambda _snapshot: partial(ReplayFeed, player), prepare)


def print_lines(path: Path) -> int:
    """Print a line for each device and moment of a recording."""
    from gputui.explain.moment.disconnects import sentence
    from gputui.sources.files.recording.story import Story

    recording = _open(path)
    for greeting in recording.greetings.values():
        put(text.introduction(greeting))
    for moment in Story(recording).moments():
        put(text.summary_of(moment))
        if moment.ended:
            put(f"{sentence(moment.pid, moment.ended)}\n")
    for notice in recording.notices:
        narrate(notice)
    return 0


def last_moments(path: Path) -> Iterator[TargetMoment]:
    """The last moment of each process in a recording."""
    from gputui.sources.files.recording.story import Story

    recording = _open(path)
    for timeline in Story(recording).advance(recording.ends, is_rough=True).values():
        if timeline.latest is not None:
            yield timeline.latest


def _open(path: Path) -> Recording:
    from gputui.sources.files.recording.reader import Recording

    return Recording(path)
