"""`gputui open`: shows what is in a file, on the attach screens or printed: a black box, a recording, a snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gputui.commands.files import replay
from gputui.commands.machine.monitor import fit_terminal, is_on_a_terminal, show
from gputui.commands.parser import Parser
from gputui.commands.printed.attach import report
from gputui.commands.progress import reading
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.attach import attach_document
from gputui.output import is_in_color, narrate, output_width, put, put_document
from gputui.protocol.black_boxes import FIRST_WORDS
from gputui.regular_files import open_regular
from gputui.settings import Settings, add_flags, apply_flags

if TYPE_CHECKING:
    from gputui.model.attached.moment import TargetMoment
    from gputui.ui.app import GputuiApp

PIPE_COLUMNS = 80
FIRST_BYTES = 64
NAME_ONE = (
    "gputui opens black boxes (`gputui black-box` lists them), recordings (`gputui attach PID --record FILE`) and"
    " PyTorch's snapshots (torch.cuda.memory._dump_snapshot)."
)


class Format(NamedTuple):
    """A kind of file: its possible first bytes, how to show a file on a terminal, and how to read its moments.

    `print_lines` prints each moment of a recording in a line; without it, each moment is printed as a report.
    """

    beginnings: tuple[bytes, ...]
    show: Callable[[Path, Settings], int]
    moments: Callable[[Path], Iterable[TargetMoment]]
    print_lines: Callable[[Path], int] | None = None


def run(arguments: list[str], settings: Settings) -> int:
    """Show a file on the attach screens, or print it where there is no terminal or --once asks for it."""
    parser = Parser(
        prog="gputui open",
        usage="gputui open FILE [--once [--json]]",
        description="Open the black box of an out-of-memory error, a recording, or a snapshot of PyTorch's\n"
        "(torch.cuda.memory._dump_snapshot) on the attach screens.\n\n"
        "In a recording, Space plays and pauses, [ and ] go 10 seconds back and forward, { and } go to"
        " marks,\n( and ) to the start and the end, < and > change the speed.",
    )
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--once", action="store_true", help="print what it holds, of a recording the end, and exit")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON document for each process")
    add_flags(parser)
    parsed = parser.parse(arguments)
    settings = apply_flags(settings, parsed)
    if parsed.json and not parsed.once:
        cause = "--json needs --once."
        raise UsageError(cause, f"Use gputui open {shlex.quote(parsed.file)} --once --json.")
    path = Path(parsed.file)
    kind = format_of(path)
    if not parsed.once and is_on_a_terminal():
        return kind.show(path, settings)
    if not parsed.once and kind.print_lines:
        return kind.print_lines(path)
    return _print_moments(kind.moments(path), settings, as_json=parsed.json)


def format_of(path: Path) -> Format:
    """The format of a file, by its first bytes. Raises GputuiError for any other file."""
    try:
        with open_regular(path) as file:
            first = file.read(FIRST_BYTES)
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise GputuiError(
            cause, NAME_ONE if isinstance(error, (FileNotFoundError, IsADirectoryError)) else ""
        ) from None
    for kind in FORMATS:
        if first.startswith(kind.beginnings):
            return kind
    raise _refusal(path, first)


OTHER_FILES = (
    (b"PK\x03\x04", "is a zip archive, as torch.save() writes checkpoints"),
    (b"\x1f\x8b", "is compressed by gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed by zstd: decompress it first"),
)
"""First bytes of files that gputui does not open, and what to say of such a file."""


def _refusal(path: Path, first: bytes) -> GputuiError:
    words = next((words for beginning, words in OTHER_FILES if first.startswith(beginning)), "")
    if not words:
        words = "is not a file that gputui opens" if first else "is empty"
    return GputuiError(f"{path} {words}.", NAME_ONE)


def _print_moments(moments: Iterable[TargetMoment], settings: Settings, *, as_json: bool) -> int:
    for place, moment in enumerate(moments):
        if as_json:
            put_document(attach_document(moment))
        else:
            put("\n" * bool(place) + report(moment, (), output_width(PIPE_COLUMNS), in_color=is_in_color(settings)))
    return 0


def show_moment(
    moment: TargetMoment, settings: Settings, *, notices: tuple[str, ...] = (), screen: str = "memory"
) -> int:
    """Show the one moment of a file on the attach screens, the one named `screen` first."""
    from gputui.sources.files.still import StillFeed
    from gputui.sources.named_machine import NamedMachine

    settings = fit_terminal(settings)

    def prepare(app: GputuiApp) -> None:
        app.attached.is_replay = app.attached.is_still = True
        app.attached.first_pids = (moment.pid,)
        app.attached.first_notices = notices
        app.attached.first_screen = screen

    machine = NamedMachine(lambda: moment.time, moment.failure.hostname if moment.failure else "")
    return show(settings, machine, lambda: lambda _snapshot: lambda _pid, take: StillFeed(moment, take), prepare)


def _snapshot(path: Path) -> TargetMoment:
    from gputui.sources.files.torch_snapshot.snapshot import open_snapshot

    with reading(path) as progress:
        return open_snapshot(path, progress)


def _show_black_box(path: Path, settings: Settings) -> int:
    from gputui.sources.files.black_box import read

    box = read(path)
    return show_moment(box.moment, settings, notices=box.notices, screen="why")


def _black_box(path: Path) -> TargetMoment:
    from gputui.sources.files.black_box import read

    box = read(path)
    for notice in box.notices:
        narrate(notice)
    return box.moment


FORMATS = (
    Format((FIRST_WORDS,), _show_black_box, lambda path: [_black_box(path)]),
    Format((b"gputui recording ",), replay.play, replay.last_moments, replay.print_lines),
    Format(
        (b"\x80", b"}q", b"]q", b"(dp", b"(lp"),  # the last four: pickles of the protocols 0 and 1
        lambda path, settings: show_moment(_snapshot(path), settings),
        lambda path: [_snapshot(path)],
    ),
)
