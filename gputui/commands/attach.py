"""`gputui attach`: lists the processes one can attach to, and looks inside them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from selectors import EVENT_READ, DefaultSelector

from gputui.commands import attach_lines as text
from gputui.commands.attach_recorded import follow
from gputui.commands.monitor import is_on_a_terminal, open_monitor
from gputui.commands.parser import Parser, pid_of
from gputui.errors import GputuiError, UsageError
from gputui.explain.attach_document import attach_document
from gputui.explain.drivers import driver_facts
from gputui.model.device import DeviceLook
from gputui.model.reading import Absent
from gputui.model.target import Look, Statistics
from gputui.output import narrate, put
from gputui.settings import Settings, add_flags, apply_flags
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from gputui.sources.procfs import ProcFs
from gputui.sources.recording.recorder import NO_KEEPER, FileRecorder, Keeper

INTERVAL_S = 1.0


def run(arguments: list[str], settings: Settings) -> int:
    """List the processes one can attach to, or attach to those named.

    On a terminal they are shown on the attach screens, otherwise as a line a second. The exit status is 1 where one of
    them cannot be attached to.
    """
    parsed = _parser().parse(arguments)
    settings = apply_flags(settings, parsed)
    pids = [pid_of(word) for word in parsed.pids]
    if parsed.job:
        pids += _ranks(pid_of(parsed.job))
    if parsed.record and not pids:
        cause = "--record needs a process to record."
        raise UsageError(cause, f"Use gputui attach PID --record {parsed.record}.")
    if not pids:
        return _list(as_json=parsed.json)
    if parsed.json and not parsed.once:
        cause = "--json needs --once."
        raise UsageError(cause, f"Use gputui attach {' '.join(parsed.pids)} --once --json.")
    if parsed.once and parsed.record:
        cause = "--record and --once exclude each other: a recording takes time, --once is a single look."
        raise UsageError(cause, "Leave out one of them.")
    if parsed.once:
        return _once(pids, as_json=parsed.json)
    if parsed.record:
        return _record(pids, settings, parsed.record)
    return _show_screens(pids, settings) if is_on_a_terminal() else _follow(pids, settings.look_pause_s)


def _ranks(launcher: int) -> list[int]:
    ranks = listing.children_with_probes(launcher)
    if not ranks and ProcFs().stat(launcher) is None:
        cause = f"There is no process {launcher} here."
        raise GputuiError(cause, "`gputui attach` lists the processes you can attach to.")
    if not ranks:
        cause = f"No process below PID {launcher} has a probe."
        remedy = "Start the job with `gputui run torchrun ...`, or put `import gputui.probe` into the program."
        raise GputuiError(cause, f"{remedy} To attach to that process itself: gputui attach {launcher}.")
    return list(ranks)


def _record(pids: list[int], settings: Settings, path: str) -> int:
    """Record to a file while the screens, or lines, show the processes."""
    for pid in pids:
        listing.attach(pid).close()  # fails before the file is created
    recorder = FileRecorder(path)
    try:
        return _show_screens(pids, settings, recorder) if is_on_a_terminal() else follow(pids, settings, recorder)
    finally:
        recorder.close()
        if recorder.problem:
            narrate(recorder.problem)


def _show_screens(pids: list[int], settings: Settings, recorder: Keeper = NO_KEEPER) -> int:
    """Open the monitor with the attach screens on top; fail before anything is drawn."""
    for pid in pids:
        listing.attach(pid).close()
    return open_monitor(settings, pids=tuple(pids), recorder=recorder)


def _parser() -> Parser:
    parser = Parser(
        prog="gputui attach",
        usage="gputui attach [PID ...] [--job PID] [--record FILE] [--pause TIME] [--once [--json]]",
        description="Look inside running training processes. Without a PID: list the processes you can attach to.",
    )
    parser.add_argument("pids", nargs="*", metavar="PID", help="a process with the probe loaded")
    parser.add_argument(
        "--job", metavar="PID", help="attach to all processes that this launcher started and that have a probe"
    )
    parser.add_argument("--record", metavar="FILE", help="record to a new file, for `gputui replay FILE`")
    parser.add_argument("--once", action="store_true", help="print one look and exit")
    parser.add_argument("--json", action="store_true", help="print JSON, one document per line")
    add_flags(parser)
    return parser


def _list(*, as_json: bool) -> int:
    processes = listing.list_probes()
    if as_json:
        body = [asdict(process) for process in processes]
        put(json.dumps({"schema": "gputui.probes/1", "processes": body}) + "\n")
    else:
        put(text.listing(processes))
    return 0


def _once(pids: list[int], *, as_json: bool) -> int:
    devices = _read_devices() if as_json else None
    return max(_print_one(pid, devices) for pid in pids)


def _print_one(pid: int, devices: DeviceLook | None) -> int:
    try:
        put(_plain(pid) if devices is None else _document(pid, devices))
    except GputuiError as error:
        narrate(str(error))
        return error.exit_status
    return 0


def _read_devices() -> DeviceLook:
    from gputui.once.look import read_in_time
    from gputui.sources.nvml import NvmlSource

    return read_in_time(NvmlSource())


def _document(pid: int, devices: DeviceLook) -> str:
    with listing.attach(pid) as client:
        look = client.look()
        statistics = client.statistics()
    pinned = statistics.pinned_bytes
    document = attach_document(
        greeting=client.greeting,
        look=look,
        drivers=driver_facts(client.greeting, devices, pid),
        rss_bytes=ProcFs().resident_bytes(pid),
        pinned_bytes=Absent("not reported by PyTorch") if pinned is None else pinned,
        problems=[*(problem.text for problem in statistics.problems), *_hints(pid, client)],
    )
    return json.dumps({**document, "pid": pid}, allow_nan=False) + "\n"


def _plain(pid: int) -> str:
    with listing.attach(pid) as client:
        look = client.look("")
        lines = text.introduction(client.greeting) + text.summary(pid, client.statistics(), look)
    return lines + "".join(f"{hint}\n" for hint in _hints(pid, client))


def _hints(pid: int, client: ProbeClient) -> list[str]:
    """For a launcher, which holds no device itself: the processes that do its work."""
    children = [] if client.greeting.is_cuda_initialized else listing.children_with_probes(pid)
    return [f"Processes that it started: gputui attach {' '.join(map(str, children))}"] if children else []


def _follow(pids: list[int], look_pause_s: float | None) -> int:
    """Print a line for each device every second until the last process has ended."""
    with ExitStack() as stack, DefaultSelector() as selector:
        looks: dict[int, Look] = {}
        for pid in pids:
            client = stack.enter_context(listing.attach(pid))
            put(text.introduction(client.greeting))
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
