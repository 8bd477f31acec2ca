"""`gputui replay`: shows a recording, on the attach screens or as lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gputui.commands import attach_lines as text
from gputui.commands.monitor import fit_terminal, is_on_a_terminal, show
from gputui.commands.parser import Parser
from gputui.output import narrate, put
from gputui.settings import Settings, add_flags, apply_flags

if TYPE_CHECKING:
    from gputui.sources.recording.reader import Recording
    from gputui.ui.app import GputuiApp


def run(arguments: list[str], settings: Settings) -> int:
    """Play a recording on the attach screens, or print it as lines where there is no terminal."""
    from gputui.sources.recording.reader import Recording

    parser = Parser(
        prog="gputui replay",
        usage="gputui replay FILE",
        description="Play back what `gputui attach PID --record FILE` has recorded.\n\n"
        "Space plays and pauses, [ and ] go 10 seconds back and forward, { and } go to marks,\n"
        "( and ) to the start and the end, < and > change the speed.",
    )
    parser.add_argument("file", metavar="FILE", help="the recording")
    add_flags(parser)
    parsed = parser.parse(arguments)
    settings = apply_flags(settings, parsed)
    recording = Recording(Path(parsed.file))
    return _play(recording, settings) if is_on_a_terminal() else _print(recording)


def _play(recording: Recording, settings: Settings) -> int:
    from gputui.sources.recording.machine import RecordedMachine
    from gputui.sources.recording.player import Player, ReplayFeed

    settings = fit_terminal(settings)
    player = Player(recording)

    def prepare(app: GputuiApp) -> None:
        app.attached.is_replay = True
        app.attached.first_pids = tuple(recording.greetings)
        app.attached.first_notices = recording.notices

    return show(settings, RecordedMachine(player), lambda: lambda _snapshot: partial(ReplayFeed, player), prepare)


def _print(recording: Recording) -> int:
    from gputui.explain.disconnects import sentence
    from gputui.sources.recording.story import Story

    for greeting in recording.greetings.values():
        put(text.introduction(greeting))
    for moment in Story(recording).moments():
        put(text.summary_of(moment))
        if moment.ended:
            put(f"{sentence(moment.pid, moment.ended)}\n")
    for notice in recording.notices:
        narrate(notice)
    return 0
