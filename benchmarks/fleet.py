"""What `gputui fleet` costs at scale: 2,000 nodes with 8 GPUs and a rank on each, in a real Prometheus.

    python -m benchmarks.fleet [--nodes 2000] [--gpus 8] [--keys 300]

The samples are backfilled with promtool, so nothing is scraped: what is asked, how long the answers take, how large
they are, and how long a key takes while they come in. Windows of an hour find a sample every two minutes. Needs
Prometheus (Debian: apt-get install prometheus) and about 1 GB in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median, quantiles

from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.fleet import Cost
from gputui.settings import Settings
from gputui.sources.prometheus.access import access_to
from gputui.sources.prometheus.client import Server
from gputui.sources.prometheus.machine import FleetMachine
from gputui.sources.prometheus.reader import Reader
from gputui.sources.prometheus.suspicions import SUSPICIONS, about_finding
from gputui.ui.app import GputuiApp
from gputui.ui.backend.terminal_app import spare_collections
from gputui.ui.screens.fleet.screen import FleetScreen
from tests.export.prometheus import Prometheus
from tests.fleet.backfilled import GIB, HOUR_S, Gpu, Series, always, holding, lines
from tests.fleet.pages import uuid
from tests.ui import running

EACH_S, NEWEST_S, GRACE_S = 120, 280, 50
SCRAPE_S = 15
WITH_HISTORY = ("gputui_device_busy_ratio", "gputui_device_memory_used_bytes")


def fleet(nodes: int, gpus: int) -> Iterator[Series]:
    """As Prometheus stores it: each job has 32 nodes."""
    for node in range(1, nodes + 1):
        for number in range(gpus):
            rank = (node - 1) % 32 * gpus + number
            gpu = Gpu(node, number, job=str(4000 + (node - 1) // 32), rank=rank)
            yield from gpu.series()
            of = {"instance": f"n{node:03d}:10836", "job": "gputui", "cluster": "lab", "UUID": uuid(node, number)}
            yield Series("gputui_device_power_watts", of, always(500 + number))
            yield Series("gputui_device_power_limit_watts", of, always(700))
            yield Series("gputui_device_temperature_celsius", of, always(60 + number))
            held = {**of, "pid": str(4000 + number), "rank": str(rank)}
            yield Series("gputui_torch_reserved_bytes", held, always(9 * GIB))


def samples(nodes: int, gpus: int, now: int) -> Iterator[str]:
    """An hour of what findings look back at, and the newest of the rest, for as long as this runs."""
    until = now + HOUR_S // 3
    for one in fleet(nodes, gpus):
        step_s = GRACE_S if one.name == "gputui_device_info" else NEWEST_S
        past = range(now - HOUR_S - 300, now, EACH_S) if one.name in WITH_HISTORY else range(now - step_s, now, step_s)
        yield from lines([one], chain(past, range(now, until, step_s)))


class Meter:
    """What a step costs: the seconds on the wall, of the processors of the server and of gputui, and what was asked."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.server = Server(access_to(prometheus.url), within_s=300)
        self.reader = Reader(self.server, time.time)

    def measured(self, words: str, work: Callable[[], object]) -> Cost:
        """Do the work, and print what it has cost."""
        cost, wall, server, own = self.server.cost, time.perf_counter(), self._server_s(), time.process_time()
        work()
        taken = (time.perf_counter() - wall, self._server_s() - server, time.process_time() - own)
        told = Cost(*(new - old for new, old in zip(self.server.cost, cost, strict=True)))
        report(words, taken, told)
        return told

    def steps(self, words: str, attention: FleetAttention, *, is_due: bool) -> Cost:
        """Ask what is due."""
        return self.measured(words, lambda: list(self.reader.steps(attention, is_due=is_due)))

    def _server_s(self) -> float:
        user, system = Path(f"/proc/{self._prometheus.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def report(words: str, taken: tuple[float, ...], cost: Cost) -> None:
    """One line."""
    times = "".join(f"{seconds:7.2f} s" for seconds in taken)
    size, samples = f"{cost.received_bytes / 1e3:7.1f} KB", f"{cost.samples / 1e6:6.3f} M samples"
    print(f"{words:<44}{times}  {cost.questions:3} questions {size} {samples}", flush=True)


def findings(meter: Meter) -> Iterator[Cost]:
    """What each question about findings costs a minute."""
    for asked, suspicion in SUSPICIONS.items():
        question = about_finding(asked, meter.reader._known, 60)
        cost = meter.measured(f"{asked.value}, every {suspicion.every_s:.0f} s", partial(meter.server.ask, question))
        yield Cost(*(round(60 / suspicion.every_s * part) for part in cost))


def questions(prometheus: Prometheus) -> None:
    """The costs of what is asked."""
    print(f"{'':<44}{'wall':>9}{'server':>9}{'gputui':>9}")
    meter = Meter(prometheus)
    first = meter.reader.steps(FleetAttention(), is_due=True)
    meter.measured("first screen", lambda: next(first))
    nodes = meter.reader.fleet.nodes
    print(f"  {len(nodes)} nodes, {meter.reader.fleet.gpus} GPUs")
    meter.measured("the rest, and all findings", lambda: list(first))
    places = frozenset(node.place for node in nodes[:3])
    meter.steps("three nodes are opened", FleetAttention(places), is_due=False)
    each = meter.steps("each scrape: the nodes, three of them open", FleetAttention(places), is_due=True)
    graphs = frozenset(node.place for node in nodes[:45])
    drawn = meter.steps("once a minute, if wide: graphs", FleetAttention(with_history=graphs), is_due=False)
    meter.steps("the list of jobs", FleetAttention(wants_jobs=True), is_due=False)
    minute = Cost(*map(sum, zip(*[each] * (60 // SCRAPE_S), drawn, *findings(meter), strict=True)))
    report(f"a minute at a scrape every {SCRAPE_S} s", (60.0,), minute)
    meter.server.close()


async def keys(url: str, count: int) -> None:
    """How long a key takes until everything is drawn, while answers come in every second."""
    assert running  # imported, it takes the pauses out of Textual's pilot
    machine = FleetMachine(Server(access_to(url), within_s=120))
    machine._reader._changed(scrape_interval_s=1.0)
    app = GputuiApp(Settings(), machine, lambda: machine)
    app.install_screen(FleetScreen(), "fleet")
    app.first_screen = "fleet"
    spare_collections()  # as in a terminal
    async with app.run_test(size=(120, 40)) as pilot:
        while not (app.snapshot.fleet and app.snapshot.fleet.time):
            await pilot.pause(0.1)
        wall, own = [], []
        for number in range(count):
            began, began_own = time.perf_counter(), time.thread_time()
            await pilot.press(("down", "down", "pagedown", "up", "space")[number % 5])
            wall.append(time.perf_counter() - began)
            own.append(time.thread_time() - began_own)
        for words, taken in (("until it is drawn", wall), ("of the processor", own)):
            last = quantiles(taken, n=100)[98]
            print(f"{count} keys, {words}: median {median(taken) * 1e3:.0f} ms, 99th percentile {last * 1e3:.0f} ms")


def main() -> None:
    """Fill a Prometheus, and ask it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--keys", type=int, default=300)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        began = time.perf_counter()
        filled = samples(parsed.nodes, parsed.gpus, int(time.time()))
        with holding(filled, Path(folder)) as prometheus:
            print(f"filled in {time.perf_counter() - began:.0f} s")
            questions(prometheus)
            asyncio.run(keys(prometheus.url, parsed.keys))


if __name__ == "__main__":
    main()
