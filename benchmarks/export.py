"""What a scrape of `gputui export` costs the exporter and each program, with no program that has a probe and with many.

    python -m benchmarks.export [--programs 64] [--scrapes 20] [--gpus 8]

Processor time, which a busy machine disturbs less than the time on the wall. The goals for 8 GPUs and 64 programs: at
most 100 ms a scrape, and at most 1 % of a program's time at one scrape a second. The programs wait, without PyTorch;
the fake GPUs need a C compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean

from benchmarks.lab import lab
from tests.export.pages import Page, exporter, get
from tests.torches import REPOSITORY

PROGRAM = "import gputui.probe\nprint('ready', flush=True)\ninput()"


@contextmanager
def program(environment: dict[str, str]) -> Iterator[int]:
    """The PID of a program with a probe."""
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def processor_s(pid: int) -> float:
    """What a process has taken, to the nanosecond; threads that have ended count nothing."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def scraped(url: str, scrapes: int, pids: list[int]) -> tuple[float, float, float, Page]:
    """For each scrape: seconds of the exporter's processor time, of a program's, of readings; and the last page."""
    page = Page(get(f"{url}metrics"))
    before, programs, read_s = page.of("process_cpu_seconds_total"), list(map(processor_s, pids)), []
    for _ in range(scrapes):
        page = Page(get(f"{url}metrics"))
        read_s += page.of("gputui_scrape_duration_seconds")
    taken = [after - at_first for after, at_first in zip(map(processor_s, pids), programs, strict=True)]
    exporters_s = page.of("process_cpu_seconds_total")[0] - before[0]
    return exporters_s / scrapes, mean(taken or [0]) / scrapes, mean(read_s), page


def main() -> None:
    """Print a line without programs, and one with them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=64)
    parser.add_argument("--scrapes", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=8)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder, ExitStack() as stack:
        machine = stack.enter_context(lab(parsed.gpus, processes=parsed.programs))
        here = {"XDG_RUNTIME_DIR": folder, "GPUTUI_PROBE": "1", "PYTHONPATH": str(REPOSITORY)}
        environment = {**os.environ, **machine.environment, **here}
        url = stack.enter_context(exporter(environment=environment))
        alone_s, _, read_s, _ = scraped(url, parsed.scrapes, [])
        print(f"no program: {alone_s * 1e3:.0f} ms of processor time a scrape, {read_s * 1e3:.0f} ms until all is read")
        pids = [stack.enter_context(program(environment)) for _ in range(parsed.programs)]
        answered = set[int]()
        while len(answered) < len(pids):  # at its first viewer, a probe imports what it needs
            page = Page(get(f"{url}metrics"))
            answered.update(pid for pid in pids if page.of("gputui_torch_probe_up", pid=pid) == [1])
        exporters_s, programs_s, read_s, page = scraped(url, parsed.scrapes, pids)
        up = sum(page.of("gputui_torch_probe_up", pid=pid) == [1] for pid in pids)
        print(
            f"{up} of {len(pids)} programs answer: {exporters_s * 1e3:.0f} ms a scrape, {read_s * 1e3:.0f} ms "
            f"until all is read; of each program {programs_s * 1e3:.2f} ms, which is {programs_s:.2%} at one a second"
        )


if __name__ == "__main__":
    main()
