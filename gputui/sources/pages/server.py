"""Asks an inference server for its metrics, on the port that its command line names, if the server listens there.

No other port of a server is asked, as its processes may use it to speak to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from gputui.errors import GputuiError
from gputui.model.attached.serving import ServerPage
from gputui.sources.listening import inodes_of, listening_on, shares_network
from gputui.sources.pages.fetch import fetched
from gputui.sources.procfs import DETAIL_BYTES, ProcFs


class Engine(NamedTuple):
    """An inference server: `port` is the default, `metrics` are fields of `ServerPage` by the names on the page."""

    name: str
    command: str
    port: int
    metrics: dict[str, str]


ENGINES = (
    Engine(
        "vLLM",
        "vllm",
        8000,
        {
            "vllm:num_requests_running": "running",
            "vllm:num_requests_waiting": "waiting",
            "vllm:kv_cache_usage_perc": "kv_use_share",
            "vllm:prefix_cache_queries_total": "prefix_queried_tokens",
            "vllm:prefix_cache_hits_total": "prefix_hit_tokens",
            "vllm:num_preemptions_total": "preemptions",
        },
    ),
    Engine(
        "SGLang",
        "sglang",
        30000,
        {
            "sglang:num_running_reqs": "running",
            "sglang:num_queue_reqs": "waiting",
            "sglang:token_usage": "kv_use_share",
            "sglang:cache_hit_rate": "prefix_hit_share",
        },
    ),
)
MEANS = frozenset({"kv_use_share", "prefix_hit_share"})
ANCESTORS_AT_MOST = 3
"""How many ancestors are tried: above a worker is its engine core, and above that the front of the server."""
_LINE = re.compile(r"((?:vllm|sglang):\w+)(?:\{[^{}]*\})? +([0-9.eE+-]+)(?: +-?\d+)?\r?", re.ASCII)
_LARGEST = 1e18


def server_page(pid: int, proc: ProcFs | None = None) -> ServerPage:
    """The page of the server to which a process belongs. May take seconds: call it in a thread. Raises GputuiError."""
    proc = proc or ProcFs()
    try:
        for front in _fronts(proc, pid):
            place = _place(proc, front)
            if place is not None:
                return _asked(front, *place)
    except OSError as error:
        cause = f"The server of process {pid} cannot be asked: {proc.why_unreadable(pid, error).reason}."
        raise GputuiError(cause, "Ask as its user, or as root.") from None
    cause = f"Neither process {pid} nor one above it listens on the port of a server that has metrics."
    raise GputuiError(cause, "SGLang has them with --enable-metrics; a port from a file of settings is not known here.")


def _asked(pid: int, engine: Engine, port: int, target: tuple[str, int]) -> ServerPage:
    try:
        return page_of(engine, pid, port, fetched(target))
    except OSError as error:
        words = "timed out" if isinstance(error, TimeoutError) else error.strerror or error
        cause = f"Port {port} of process {pid} does not answer: {words}."
        raise GputuiError(cause, "It may still be starting, or it hangs.") from None


def _fronts(proc: ProcFs, pid: int) -> Iterator[int]:
    for _ in range(1 + ANCESTORS_AT_MOST):
        if pid <= 1:
            return
        yield pid
        stat = proc.stat(pid)
        if stat is None:
            return
        pid = stat.parent_pid


def _place(proc: ProcFs, pid: int) -> tuple[Engine, int, tuple[str, int]] | None:
    """The engine, its port and the address to connect to; None where the process does not listen on that port."""
    arguments = proc.arguments(pid, DETAIL_BYTES)
    command = " ".join(arguments).lower()
    engine = next((engine for engine in ENGINES if engine.command in command), None)
    if engine is None:
        return None
    if not shares_network(proc, pid):
        cause = f"Process {pid} is in a container with a network of its own, and answers only there."
        raise GputuiError(cause, "Run gputui in that container.")
    port, own = port_in(arguments) or engine.port, inodes_of(proc, pid)
    mine = next((each for each in listening_on(proc, pid, port) if each.inode in own), None)
    return (engine, port, mine.target) if mine else None


def port_in(arguments: Sequence[str]) -> int | None:
    """The port in a command line's last `--port`, None without one."""
    words = " ".join(arguments).replace("=", " ").split()
    named = [after for word, after in pairwise(words) if word == "--port"]
    return int(named[-1]) if named and named[-1].isascii() and named[-1].isdigit() and len(named[-1]) < 6 else None


def page_of(engine: Engine, pid: int, port: int, text: str) -> ServerPage:
    """What a page says. Raises GputuiError where it has no metric that gputui knows."""
    found: dict[str, list[float]] = {}
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        field = engine.metrics.get(match[1]) if match else None
        if match is not None and field is not None:
            value = _number(match[2])
            if value is not None and (field not in MEANS or value <= 1):
                found.setdefault(field, []).append(value)
    if not found:
        cause = f"Port {port} of process {pid} answers, and not with metrics of {engine.name}."
        raise GputuiError(cause, "SGLang has them with --enable-metrics, vLLM without --disable-log-stats.")
    return ServerPage(
        engine.name, pid, port, **{name: (fmean if name in MEANS else sum)(values) for name, values in found.items()}
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < _LARGEST else None
