"""What a frame of each screen costs after ten minutes and after seven days: processor time, and samples that it reads.

python -m benchmarks.history [--size 120x40] [--times 20]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import product
from math import inf

from textual._context import active_app

from tests.ui.attach.watching import FRAMES, SCREENS, TEN_MINUTES_S, WEEK_S, Watching, Work, watching

SPARSE_S = 60
"""Of what lies more than an hour back, the histories have a reading in so many seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What a frame costs after days.")
    parser.add_argument("--size", default="120x40", help="COLUMNSxLINES")
    parser.add_argument("--times", type=int, default=20, help="how often each screen is measured")
    parsed = parser.parse_args(arguments)
    columns, rows = map(int, parsed.size.split("x"))
    asyncio.run(_measure((columns, rows), parsed.times))
    return 0


async def _measure(size: tuple[int, int], repeats: int) -> None:
    """Both applications run side by side and are measured in turn; of all turns the quickest counts."""
    times: dict[int, dict[str, float]] = {TEN_MINUTES_S: {}, WEEK_S: {}}
    works: dict[int, dict[str, Work]] = {TEN_MINUTES_S: {}, WEEK_S: {}}
    async with AsyncExitStack() as stack:
        sides = {watched_s: await stack.enter_async_context(watching(watched_s, size, SPARSE_S)) for watched_s in times}
        for name in SCREENS:
            for watched_s, at in sides.items():
                active_app.set(at.app)
                await at.go(name)
                works[watched_s][name] = await at.work()
            for _, (watched_s, at) in product(range(repeats), sides.items()):
                active_app.set(at.app)
                times[watched_s][name] = min(await _frame_ms(at), times[watched_s].get(name, inf))
    print("| screen | ms after 10 minutes, 7 days | ratio | samples read | lines of gputui's code |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in SCREENS:
        few_ms, many_ms = (by_name[name] for by_name in times.values())
        few, many = (by_name[name] for by_name in works.values())
        print(
            f"| {name} | {few_ms:.1f}, {many_ms:.1f} | {many_ms / few_ms:.2f} | {few.samples:,}, {many.samples:,}"
            f" | {few.lines:,}, {many.lines:,} |"
        )


async def _frame_ms(at: Watching) -> float:
    """The mean of `FRAMES` frames."""
    readings = [at.next() for _ in range(FRAMES)]
    start_s = time.process_time()
    for snapshot, moments in readings:
        await at.draw(snapshot, moments)
    return 1000 * (time.process_time() - start_s) / FRAMES


if __name__ == "__main__":
    raise SystemExit(main())
