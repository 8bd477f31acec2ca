"""`gputui` without a command: the full-screen monitor, or one printed look with --once."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui import __version__
from gputui.commands.parser import Parser
from gputui.errors import UsageError
from gputui.output import put
from gputui.settings import Settings, add_flags, apply_flags
from gputui.terminals import CANNOT_SHOW, draws_unicode

if TYPE_CHECKING:
    from gputui.commands.reach.where import Here
    from gputui.model.machine.snapshot import Snapshot
    from gputui.model.past import Past
    from gputui.sampler import Machine
    from gputui.sources.probe.recorder import Recorder
    from gputui.ui.app import GputuiApp
    from gputui.ui.attach.targets import Feed, FeedMessage, OpenFeed

    OpenFeeds = Callable[[Callable[[], Snapshot]], OpenFeed]


def run(arguments: list[str], settings: Settings) -> int:
    """Open the monitor, or print what the options ask for."""
    parsed = _parser().parse(arguments)
    settings = apply_flags(settings, parsed)
    if parsed.version:
        put(f"gputui {__version__}\n")
        return 0
    if parsed.json and not parsed.once:
        from gputui.commands.machine.stream import print_documents

        return print_documents(settings.interval_s, is_demo=parsed.demo)
    return _once(parsed, settings) if parsed.once else open_monitor(settings, demo=parsed.demo)


def _parser() -> Parser:
    from gputui.cli import COMMANDS

    rows = "\n".join(f"  gputui {command.name:<12} {command.help}" for command in COMMANDS)
    parser = Parser(
        prog="gputui",
        usage="gputui [options]\n       gputui COMMAND [options]",
        description="A terminal monitor for NVIDIA GPUs that also sees inside PyTorch.",
        epilog=f"commands (gputui COMMAND --help shows the options of each):\n{rows}",
    )
    parser.add_argument("--once", action="store_true", help="print one look and exit (status 1: NVML cannot be read)")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON document a line for each look; with --once: one"
    )
    parser.add_argument("--demo", action="store_true", help="show a simulated training job; needs no GPU")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    add_flags(parser)
    return parser


def _once(parsed: Namespace, settings: Settings) -> int:
    from gputui.once import run_once

    return run_once(settings, demo=parsed.demo, as_json=parsed.json)


def is_on_a_terminal() -> bool:
    """Whether standard input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def open_monitor(
    settings: Settings,
    *,
    demo: bool = False,
    pids: tuple[int, ...] = (),
    recorder: Recorder | None = None,
    records_step: bool = False,
    where: Here | None = None,
) -> int:
    """Open the monitor, with the attach screens of `pids` on top, and return the exit status.

    `where` is the machine of the processes, this one without it; `recorder` records them. With
    `records_step`, they begin to record a step, and the Step screen is on top.
    """
    settings = fit_terminal(settings)

    from gputui.sources.machine import LiveMachine

    node = where.node if where else ""
    machine = (
        demonstration() if demo else where.machine() if where else LiveMachine()
    )  # the driver starts to answer while the rest is imported

    def open_feeds() -> OpenFeeds:
        from gputui.sources.probe.feed import feed_opener
        from gputui.sources.probe.recorder import NO_RECORDER

        attach = where.attach if where else None
        return feeds_or_demo(feed_opener(settings.interval_s, recorder or NO_RECORDER, settings.look_pause_s, attach))

    def prepare(app: GputuiApp) -> None:
        from gputui.commands.reach.probes import Loader

        app.attached.first_pids = pids
        app.attached.is_far = bool(node)
        app.attached.loader = None if demo or settings.readonly or node else Loader()
        if not (demo or settings.readonly or node):
            from gputui.sources.nccl.source import RasSource
            from gputui.sources.pages.server import server_page

            app.attached.inquirer, app.attached.server_page = RasSource(), server_page
        if not (demo or node):
            app.attached.read_past = _read_past
        if records_step:
            from gputui.model.attached.target import ActionName

            app.attached.first_screen, app.attached.first_action = "step", ActionName.RECORD_STEP
        if recorder is not None:
            app.attached.is_recording = lambda: recorder.is_recording

    return show(settings, machine, open_feeds, prepare, LiveMachine if demo else None)


def _read_past(begin: float, end: float) -> Past:
    """The record between two times; imports SQLite only when somebody looks back."""
    from gputui.archive.report import read_past

    return read_past(begin, end)


def fit_terminal(settings: Settings, printing: str = "gputui --once") -> Settings:
    """The settings, limited to what this terminal can show. Raises `UsageError` where it cannot show the monitor.

    `printing` is the command that needs no terminal.
    """
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None or not stream.isatty():
            cause = f"The monitor needs a terminal, and standard {name} is not one."
            raise UsageError(cause, f"To print one look, use {printing}.")
    kind = os.environ.get("TERM", "")
    if kind in CANNOT_SHOW:
        cause = f"TERM is {kind!r}, which cannot show a full-screen program."
        raise UsageError(cause, f"Set TERM to your terminal's type, such as xterm-256color, or use {printing}.")
    if not draws_unicode(sys.stdout.encoding, os.environ):
        settings = settings._replace(ascii=True)
    _limit_colors(settings.color)
    return settings


def _limit_colors(color: str) -> None:
    """Tell Textual, which reads the environment when it is imported, how many colours to use.

    NO_COLOR is part of `color` already, unless GPUTUI_COLOR or --color overrides it.
    """
    if color == "none":
        os.environ["NO_COLOR"] = "1"
        return
    os.environ.pop("NO_COLOR", None)
    if color != "auto":
        os.environ["TEXTUAL_COLOR_SYSTEM"] = "standard" if color == "16" else color


def show(
    settings: Settings,
    machine: Machine,
    open_feeds: Callable[[], OpenFeeds],
    prepare: Callable[[GputuiApp], None],
    live: Callable[[], Machine] | None = None,
) -> int:
    """Look, draw the first frame, and only then spend the time to import the application."""
    from gputui.model.machine.snapshot import Attention
    from gputui.ui.backend.first_frame import show_first_frame
    from gputui.ui.drawing.appearance import appearance_of

    first = machine.look(Attention(), settings.interval_s)
    with show_first_frame(first, settings, appearance_of(settings)):
        from gputui.ui.app import GputuiApp

        app = GputuiApp(settings, machine, demonstration, first, open_feeds(), live)
        prepare(app)
        return app.run_to_end(mouse=settings.mouse)


def demonstration() -> Machine:
    """The demonstration, whose modules are imported only for it."""
    from gputui.sources.demo_machine import DemoMachine

    return DemoMachine()


def feeds_or_demo(open_live: OpenFeeds) -> OpenFeeds:
    """Opens feeds to processes of this machine, or of the demonstration while that is shown."""

    def with_snapshots(snapshot: Callable[[], Snapshot]) -> OpenFeed:
        live = open_live(snapshot)

        def open_feed(pid: int, listener: Callable[[FeedMessage], None]) -> Feed:
            if not snapshot().is_demo:
                return live(pid, listener)
            from gputui.sources.files.recording.shipped import demo_feed

            return demo_feed(snapshot, pid, listener)

        return open_feed

    return with_snapshots
