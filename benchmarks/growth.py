"""How the cost grows with devices, processes, blocks and tensors.

    python -m benchmarks.growth [--seconds 10] [--size 160x48] [--svg benchmarks/growth.svg]

Devices and processes: the processor time of the monitor and of nvitop, one look a second, on the same fake machine.
Blocks and tensors: the processor time to derive what the attach screens show from one look at a process (they do it
after changes, at most every other second, in a separate thread). It prints tables, and draws them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.lab import lab
from benchmarks.monitor import PROGRAMS, started, steady
from benchmarks.plot import Panel, svg
from gputui.explain.moment.probe_state import layouts_of
from gputui.model.attached.owners import OwnerName
from gputui.model.attached.target import Cost, Look
from gputui.model.attached.tensors import HOST, Category, Inventory, Storage
from gputui.units import MIB
from tests.explain.maps import layout, segment, statistics

DEVICES = (1, 2, 4, 8, 16)
PROCESSES = (0, 24, 100, 250, 500)
BLOCKS = (100, 1_000, 10_000)
TENSORS = (1_000, 10_000, 100_000)
BLOCKS_IN_A_SEGMENT = 50

Points = list[tuple[float, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long each point is measured")
    parser.add_argument("--size", default="160x48", help="COLUMNSxLINES")
    parser.add_argument("--svg", type=Path, default=Path(__file__).with_name("growth.svg"), help="where to draw")
    options = parser.parse_args(arguments)
    by_devices = monitors([(count, 24) for count in DEVICES], 0, options)
    by_processes = monitors([(8, count) for count in PROCESSES], 1, options)
    by_blocks: Points = [(count, look_ms(count, 0)) for count in BLOCKS]
    by_tensors: Points = [(count, look_ms(1_000, count)) for count in TENSORS]
    panels = (
        Panel("Devices (24 processes)", "devices", "processor time, % of a core", by_devices),
        Panel("Processes (8 devices)", "processes", "processor time, % of a core", by_processes),
        Panel("Blocks, each with a tensor", "blocks", "processor time of a look, ms", {"gputui": by_blocks}),
        Panel("Tensors (1,000 blocks)", "tensors", "processor time of a look, ms", {"gputui": by_tensors}),
    )
    for panel in panels:
        print(table(panel))
    options.svg.write_text(svg(panels))
    return 0


def monitors(machines: Sequence[tuple[int, int]], varied: int, options: argparse.Namespace) -> dict[str, Points]:
    """Percent of a core by program, for machines of (devices, processes); `varied` is the index of the x value."""
    points: dict[str, Points] = {program.name: [] for program in PROGRAMS}
    for machine in machines:
        with lab(*machine) as place:
            for program in PROGRAMS:
                with started(program, options.size, place) as terminal:
                    percent = steady(terminal, options.seconds)["cpu_percent"]
                points[program.name].append((machine[varied], percent))
    return points


def look_ms(blocks: int, tensors: int) -> float:
    """Processor time to derive everything from one look: the minimum of three."""
    look = look_at(blocks, tensors)
    return min(1000 * cpu_s_of(lambda: layouts_of(look)) for _ in range(3))


def look_at(blocks: int, tensors: int) -> Look:
    """A look at a process with a tensor in each of `blocks` device blocks, and `tensors` tensors on the host."""
    segments, storages = [], []
    for number in range(blocks // BLOCKS_IN_A_SEGMENT):
        full = segment(*[("live", 2)] * BLOCKS_IN_A_SEGMENT, address=(number + 1) << 32)
        segments.append(full)
        storages += [_storage(0, block.address, len(storages) + place) for place, block in enumerate(full.blocks)]
    storages += [_storage(HOST, (1 << 50) + number * 4 * MIB, number) for number in range(tensors)]
    made_map = layout(*segments)
    inventory = Inventory(tuple(storages), "walk", is_of_one_moment=True)
    return Look(1.0, (statistics(made_map),), made_map.settings, made_map, inventory, Cost(1, 1))


def _storage(device: int, address: int, number: int) -> Storage:
    return Storage(
        device=device, address=address, size_bytes=2 * MIB, category=Category.PARAMETER,
        owner=OwnerName(f"model.layers.{number // 12}.block.{number % 12}.weight"), type="Parameter",
        shape=(MIB // 2,), dtype="float32",
    )  # fmt: skip


def cpu_s_of(work: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def table(panel: Panel) -> str:
    """The chart's numbers in Markdown."""
    places = [x for x, _ in next(iter(panel.series.values()))]
    lines = [[f"{panel.title}: {panel.y}", *(f"{x:,g}" for x in places)], ["---", *["---:"] * len(places)]]
    lines += [[name, *(f"{y:.1f}" for _, y in points)] for name, points in panel.series.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
