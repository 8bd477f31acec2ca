"""`gputui attach`: lists the processes one can attach to, and looks inside them."""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import asdict
from selectors import EVENT_READ, DefaultSelector

from gputui.commands.attach import lines as text
from gputui.commands.attach.follow import follow_in_documents, follow_in_lines
from gputui.commands.attach.job import processes_of_job
from gputui.commands.machine.monitor import is_on_a_terminal, open_monitor
from gputui.commands.parser import Parser
from gputui.commands.printed.attach import report
from gputui.commands.reach.probes import ONCE_WAITS_S, end_probes
from gputui.commands.reach.where import Here, where_of
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.attach import attach_document
from gputui.inject.process.process_facts import workers_of
from gputui.model.attached.target import Look, Statistics
from gputui.model.machine.snapshot import NOTHING_YET, Snapshot
from gputui.output import is_in_color, narrate, output_width, put, put_document
from gputui.settings import Settings, add_flags, apply_flags
from gputui.sources.files.recording.recorder import FileRecorder
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.one_moment import one_moment
from gputui.sources.probe.recorder import NO_RECORDER, Recorder

INTERVAL_S = 1.0
PIPE_COLUMNS = 80
"""The width of a report where there is no terminal and $COLUMNS is not set."""


def run(arguments: list[str], settings: Settings) -> int:
    """List the processes one can attach to, or attach to those named.

    A terminal gets the attach screens; without one, a line a second is printed, or with --json a document for each
    look. The exit status is 1 where one of the processes cannot be attached to.
    """
    parsed = _parser().parse(arguments)
    settings = apply_flags(settings, parsed)
    words = _words(parsed)
    if not words:
        return _list(parsed)
    where, pids = where_of(words)
    if parsed.detach:
        return end_probes(pids, where.attach)
    if parsed.behind:
        return _behind(where, pids, settings, parsed)
    if parsed.once and parsed.record:
        cause = "--record and --once exclude each other: a recording takes time, --once is a single look."
        raise UsageError(cause, "Leave out one of them.")
    where.prepare(
        pids, is_assumed=parsed.yes or (parsed.once and parsed.json), limit_s=ONCE_WAITS_S if parsed.once else None
    )
    return _look_at(where, pids, settings, parsed)


def _behind(where: Here, pids: list[int], settings: Settings, parsed: Namespace) -> int:
    if where.node or parsed.once or parsed.record or settings.readonly:
        cause = "--behind asks on this machine only, and goes with --json and --yes alone."
        raise UsageError(cause, "On another machine: ssh NODE gputui attach PID --behind --yes")
    from gputui.commands.attach.behind import ask_behind

    width, in_color = output_width(PIPE_COLUMNS), is_in_color(settings)
    return ask_behind(pids, is_assumed=parsed.yes, as_json=parsed.json, width=width, in_color=in_color)


def _words(parsed: Namespace) -> list[str]:
    """The processes named as arguments, then those of the job that --job names."""
    if parsed.hosts and not parsed.job:
        cause = "--hosts says on which nodes the processes of a job are."
        raise UsageError(cause, "Name the job, too: gputui attach --job NAME --hosts NODE,NODE.")
    if not parsed.job:
        return list(parsed.pids)
    return [*parsed.pids, *processes_of_job(parsed.job, parsed.hosts or (), with_probe=parsed.detach)]


def _look_at(where: Here, pids: list[int], settings: Settings, parsed: Namespace) -> int:
    if parsed.once:
        return _once(where, pids, settings, as_json=parsed.json)
    if parsed.record:
        return _record(where, pids, settings, parsed.record, as_json=parsed.json)
    if parsed.json:
        return follow_in_documents(where, pids, settings)
    return _show_screens(where, pids, settings) if is_on_a_terminal() else _follow(where, pids, settings.look_pause_s)


def _record(where: Here, pids: list[int], settings: Settings, path: str, *, as_json: bool) -> int:
    """Record to a file while the screens, lines or documents show the processes."""
    for pid in pids:
        where.check(pid)  # fails before the file is created
    recorder = FileRecorder(path)
    try:
        if as_json:
            return follow_in_documents(where, pids, settings, recorder)
        follow = _show_screens if is_on_a_terminal() else follow_in_lines
        return follow(where, pids, settings, recorder)
    finally:
        recorder.close()
        if recorder.problem:
            narrate(recorder.problem)


def _show_screens(where: Here, pids: list[int], settings: Settings, recorder: Recorder = NO_RECORDER) -> int:
    """Open the monitor with the attach screens on top; fail before anything is drawn."""
    for pid in pids:
        where.check(pid)
    return open_monitor(settings, pids=tuple(pids), recorder=recorder, where=where)


def _parser() -> Parser:
    parser = Parser(
        prog="gputui attach",
        usage="gputui attach [PID ...] [--job PID] [--record FILE] [--pause TIME] [--once] [--json] [--yes]\n"
        "       gputui attach NODE:PID ... (on another machine, which ssh reaches and which has gputui)\n"
        "       gputui attach --job JOB --hosts NODE,NODE (all ranks of a job over its nodes)\n"
        "       gputui attach PID ... --detach\n"
        "       gputui attach PID ... --behind [--json] [--yes]",
        description="Look inside running training processes. Without a PID: list the processes you can attach to.",
    )
    parser.add_argument("pids", nargs="*", metavar="PID", help="a process that runs PyTorch")
    parser.add_argument("--job", metavar="PID", help="attach to all ranks of the job that this launcher started")
    parser.add_argument(
        "--hosts", metavar="NODE", nargs="+", help="the nodes of the job; --job is then its name, or one NODE:PID of it"
    )
    parser.add_argument("--record", metavar="FILE", help="record to a new file, for `gputui replay FILE`")
    parser.add_argument("--once", action="store_true", help="print one look, with what to do, and exit")
    parser.add_argument("--json", action="store_true", help="print JSON: one document per line for each look")
    parser.add_argument("--yes", action="store_true", help="without a question: put the probe in, or ask NCCL")
    parser.add_argument("--detach", action="store_true", help="end a probe that was put into a running process")
    parser.add_argument(
        "--behind", action="store_true", help="ask NCCL which rank of its job is behind, after a question, and exit"
    )
    add_flags(parser)
    return parser


def _list(parsed: Namespace) -> int:
    if parsed.record:
        cause = "--record needs a process to record."
        raise UsageError(cause, f"Use gputui attach PID --record {shlex.quote(parsed.record)}.")
    if parsed.once:
        cause = "--once needs a process to look at."
        raise UsageError(cause, "Use gputui attach PID --once.")
    processes = listing.list_probes()
    if parsed.json:
        body = [asdict(process) for process in processes]
        put_document({"schema": "gputui.probes/1", "processes": body})
    else:
        from gputui.once.run import read_machine

        put(text.listing(processes, read_machine().devices))
    return 0


def _once(where: Here, pids: list[int], settings: Settings, *, as_json: bool) -> int:
    from gputui.once.run import read_machine

    def machine() -> Snapshot:
        return NOTHING_YET if where.node else read_machine()

    statuses = []
    for place, pid in enumerate(pids):
        try:
            with where.attach(pid) as client:
                moment = one_moment(client, machine, settings.look_pause_s)
                hints = _hints(pid, client)
        except GputuiError as error:
            narrate(str(error))
            statuses.append(error.exit_status)
            continue
        if as_json:
            put_document(attach_document(moment, problems=hints))
        else:
            put("\n" * bool(place) + report(moment, hints, output_width(PIPE_COLUMNS), in_color=is_in_color(settings)))
        statuses.append(0 if moment.look else 1)
    return max(statuses)


def _hints(pid: int, client: ProbeClient) -> list[str]:
    """For a launcher, which holds no device itself: how to attach to the processes that do its work."""
    if client.node:
        return []
    has_ranks = not client.greeting.is_cuda_initialized and (workers_of(pid) or listing.children_with_probes(pid))
    return [f"The processes that it started: gputui attach --job {pid}"] if has_ranks else []


def _follow(where: Here, pids: list[int], look_pause_s: float | None) -> int:
    """Print a line for each device every second until the last process has ended."""
    with ExitStack() as stack, DefaultSelector() as selector:
        looks: dict[int, Look] = {}
        for pid in pids:
            client = stack.enter_context(where.attach(pid))
            put(text.introduction(client.greeting, client.node))
            client.subscribe(INTERVAL_S)
            client.ask_look("")
            selector.register(client, EVENT_READ, pid)
        while selector.get_map():
            for key, _ in selector.select():
                if isinstance(key.fileobj, ProbeClient):
                    try:
                        _show(key.fileobj, key.data, looks, look_pause_s)
                    except GputuiError as error:
                        selector.unregister(key.fd)
                        narrate(str(error))
    return 0


def _show(client: ProbeClient, pid: int, looks: dict[int, Look], look_pause_s: float | None) -> None:
    for message in client.waiting():
        if isinstance(message, Look):
            looks[pid] = message
            if look_pause_s is not None:
                client.ask_look("", when="changed", pause_s=look_pause_s)
        elif isinstance(message, Statistics):
            put(text.summary(pid, message, looks.get(pid)))
