"""`gputui watch`: waits without a screen until something is wrong with this machine, and ends with what it is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from threading import Event

from gputui.commands.machine.looks import INTERVAL_S, looks
from gputui.commands.parser import Parser, duration_of
from gputui.errors import UsageError, did_you_mean
from gputui.explain.machine.rules import RULES
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Snapshot
from gputui.model.weight import Weight
from gputui.once.document import findings_document
from gputui.once.table import findings_lines
from gputui.output import narrate, output_width, put
from gputui.own_descriptors import of_child
from gputui.sampler import Machine
from gputui.settings import Settings
from gputui.ui.drawing.line import as_text
from gputui.units import format_duration

NOTHING = 1
"""The exit status where the time is over and nothing was found."""
_PIPE_COLUMNS = 100
_KINDS = "\n".join(f"  {rule.kind:<12} {rule.help}" for rule in RULES)


def run(arguments: list[str], settings: Settings) -> int:
    """Wait; the exit status is 0 with a finding, 1 where the time is over without one, or that of --exec's command."""
    parsed = _parser().parse(arguments)
    kinds, seconds = _kinds(parsed.until), _seconds(parsed.within)

    from gputui.sources.machine import LiveMachine

    machine = LiveMachine()
    try:
        found, snapshot = wait(machine, kinds, seconds, max(INTERVAL_S, settings.interval_s), Event().wait)
    finally:
        machine.close()
    if not found:
        narrate(f"Nothing was found in {format_duration(seconds or 0)}.")
        return NOTHING
    return _tell(found, snapshot, parsed)


def _parser() -> Parser:
    parser = Parser(
        prog="gputui watch",
        usage="gputui watch [--for TIME] [--until KIND]... [--exec COMMAND] [--json]",
        description="Wait until something is wrong with this machine, print what it is and what to do, and end.\n"
        "Without --until, this is a problem that was not there at the beginning: no advice such as idle_held.",
        epilog=f"kinds:\n{_KINDS}\n\n"
        "exit status: 0 with a finding (with --exec, that of the command), 1 where the time is over without one",
    )
    parser.add_argument("--for", dest="within", metavar="TIME", help="wait at most so long, such as 30min or 8h")
    parser.add_argument("--until", action="append", default=[], metavar="KIND", help="wait for findings of this kind")
    parser.add_argument(
        "--exec",
        dest="command",
        metavar="COMMAND",
        help="then run this shell command: it gets the finding on standard input, and its title as $1",
    )
    parser.add_argument("--json", action="store_true", help="print findings as one JSON document, a list")
    return parser


def _kinds(wanted: Iterable[str]) -> frozenset[str]:
    known = [rule.kind for rule in RULES]
    for kind in wanted:
        if kind not in known:
            cause = f"There is no kind of finding {kind!r}."
            raise UsageError(cause, did_you_mean(kind, known) or f"The kinds are: {', '.join(known)}.")
    return frozenset(wanted)


def _seconds(text: str | None) -> float | None:
    return None if text is None else duration_of("--for", text)


def wait(
    machine: Machine, kinds: frozenset[str], seconds: float | None, interval_s: float, pause: Callable[[float], object]
) -> tuple[tuple[MachineFinding, ...], Snapshot]:
    """The findings that end the wait, and the snapshot they come from; none where `seconds` are over.

    With `kinds`, any of these; without, any problem that was not there at the beginning. `pause` sleeps.
    """
    named: set[tuple[object, ...]] = set()
    end = None if seconds is None else time.monotonic() + seconds

    def rest(rest_s: float) -> None:
        pause(rest_s if end is None else max(0.0, min(rest_s, end - time.monotonic())))

    for snapshot in looks(machine, interval_s, rest):
        found = tuple(finding for finding in snapshot.findings if _ends(finding, kinds))
        if found or (end is not None and time.monotonic() >= end):
            return found, snapshot
        for finding in snapshot.findings:
            if finding.is_older and finding.weight is Weight.PROBLEM and finding.key not in named:
                named.add(finding.key)
                narrate(f"Already there: {finding.where}: {finding.title}")
    raise AssertionError  # looks have no end


def _ends(finding: MachineFinding, kinds: frozenset[str]) -> bool:
    return finding.kind in kinds if kinds else finding.weight is Weight.PROBLEM and not finding.is_older


def _tell(found: tuple[MachineFinding, ...], snapshot: Snapshot, parsed: Namespace) -> int:
    """Print the findings, and run the command; returns the exit status."""
    if parsed.json:
        text = json.dumps(findings_document(found, snapshot.devices.devices)) + "\n"
    else:
        width = output_width(_PIPE_COLUMNS)
        text = "\n".join(as_text(line, is_colored=False) for line in findings_lines(found, width)).strip("\n") + "\n"
    put(text)
    if not parsed.command:
        return 0
    title = f"{found[0].where}: {found[0].title}"
    result = subprocess.run(
        ["/bin/sh", "-c", parsed.command, "gputui", title],
        input=text,
        text=True,
        stdout=of_child(sys.stdout),
        stderr=of_child(sys.stderr),
        check=False,
    )
    return result.returncode if result.returncode >= 0 else 128 - result.returncode
