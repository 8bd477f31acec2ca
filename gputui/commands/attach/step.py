"""`gputui step`: records the allocations of a step, and shows who held the memory at its peak."""

from __future__ import annotations

from pathlib import Path

from gputui.commands.attach.snapshot import check_path, save
from gputui.commands.machine.monitor import is_on_a_terminal, open_monitor
from gputui.commands.parser import Parser, pid_of
from gputui.commands.printed.step import step_report
from gputui.commands.reach.probes import attached
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.memory_viz import step_file
from gputui.explain.moment.actions import ACTIONS
from gputui.explain.step.step import step_of
from gputui.model.attached.target import ActionName
from gputui.model.attached.trace import RecordedTraces
from gputui.output import narrate, output_width, put, typed
from gputui.settings import Settings
from gputui.sources.probe import listing

PIPE_COLUMNS = 120
"""The width of the summary where there is no terminal and $COLUMNS is not set."""


def run(arguments: list[str], settings: Settings) -> int:
    """Ask, record, and show or save the step."""
    parser = Parser(
        prog="gputui step",
        usage="gputui step PID [-o FILE] [--once] [--yes]",
        description="Record the allocations of a step of training: who holds the memory at its peak, and since when.",
    )
    parser.add_argument("pid", metavar="PID", help="a process with the probe loaded")
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file for PyTorch's snapshot format, with names")
    parser.add_argument("--once", action="store_true", help="print a summary instead of opening the Step screen")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parsed = parser.parse(arguments)
    pid = pid_of(parsed.pid)
    path = Path(parsed.output) if parsed.output else None
    if path is not None:
        _check_new(path)
    if path is None and not parsed.once and is_on_a_terminal():
        _confirm(pid, parser.prog, is_sure=parsed.yes)
        return open_monitor(settings, pids=(pid,), records_step=True)
    recorded = recording_of(pid, parser.prog, is_sure=parsed.yes)
    steps = [step for trace in recorded.traces if (step := step_of(trace, recorded.look))]
    if not steps or recorded.look.map is None:
        cause = f"The recording of process {pid} holds no events."
        raise GputuiError(cause, "Record it while it trains.")
    busiest = max(steps, key=lambda step: len(step.timeline))
    put(step_report(busiest, recorded, output_width(PIPE_COLUMNS)))
    if path is not None:
        save(path, step_file(steps, recorded.look, recorded.look.map), "xb")
    return 0


def _check_new(path: Path) -> None:
    """Report a path that cannot be written before the process is recorded."""
    if path.exists() and not path.is_dir():
        cause = f"{path} exists already, and a recording overwrites nothing."
        raise UsageError(cause, "Name another file with -o, or remove that one first.")
    check_path(path)


def recording_of(pid: int, command: str, *, is_sure: bool) -> RecordedTraces:
    """Record a step of a process, after a question unless `is_sure`; raises GputuiError with the reason."""
    _confirm(pid, command, is_sure=is_sure)
    return _record(pid)


def _confirm(pid: int, command: str, *, is_sure: bool) -> None:
    """Fail for a process that cannot be recorded, then ask."""
    attached(pid, command).close()
    if not is_sure:
        _ask(pid)


def _ask(pid: int) -> None:
    action = ACTIONS[ActionName.RECORD_STEP]
    if not is_on_a_terminal():
        cause = f"{action.question.format(pid)} {action.warning}"
        raise UsageError(cause, "Without a terminal to ask on, confirm with --yes.")
    narrate(f"{action.question.format(pid)} {action.warning}")
    if typed("Record? [y/N] ") not in ("y", "yes"):
        cause = "Nothing was recorded."
        raise GputuiError(cause)


def _record(pid: int) -> RecordedTraces:
    with listing.attach(pid) as client:
        client.look()  # a whole look in several stops, as the recording's one stop has time only for new objects
        recorded, result = client.record_step()
    if recorded is None:
        cause = f"No step of process {pid} was recorded."
        raise GputuiError(cause, result.reason)
    return recorded
