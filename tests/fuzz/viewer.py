"""Fuzzes the viewer: false probes, recordings and black boxes, while random keys are pressed at random sizes.

    python -m tests.fuzz.viewer [--minutes 60] [--seed 1] [--case 1234] [--keep-going]

A case is the application, attached to up to three false probes over real sockets, replaying a false recording or
showing a false black box, or the real program on a terminal of its own. Messages and keys follow from the number of
the case, which `--case` repeats; threads make their order differ. It prints figures, and exits with 1 if something
failed in a case, keys were not served, or the terminal got what only a target could have written: after the first such
case, or, with `--keep-going`, when the time is over.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from random import Random

os.environ["GPUTUI_PROBE"] = "0"

from gputui.model.attached.moment import TargetMoment
from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, Driver
from gputui.model.machine.snapshot import Snapshot
from gputui.settings import Settings
from gputui.sources.files.black_box import NoBlackBoxError, read
from gputui.sources.files.recording.index import NoRecordingError
from gputui.sources.files.recording.player import Player, ReplayFeed
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.still import StillFeed
from gputui.sources.named_machine import NamedMachine
from gputui.sources.probe.feed import feed_opener
from gputui.ui.app import GputuiApp
from gputui.ui.screens.attach.base import AttachScreen
from gputui.units import GIB
from tests.fuzz.black_boxes import FalseBlackBox
from tests.fuzz.false_probe import FalseProbe
from tests.fuzz.on_terminal import run_on_a_terminal
from tests.fuzz.pressing import CELL_BYTES, Figures, Presser, check_output, no_thread_may_fail, random_size
from tests.fuzz.recordings import FalseRecording
from tests.ui.attach.sitting import StillMachine
from tests.ui.running import Running
from tests.ui.wire import Wire

KINDS = ("probes", "probes", "probes", "recording", "black box", "terminal")
"""What a case is."""
NEVER_S = 3600.0


def run_case(number: int, figures: Figures, kind: str = "") -> None:
    """Run one case, of the kind that follows from its number or of another; raises if anything in it failed."""
    random = Random(number)
    drawn = random.choice(KINDS)
    kind = kind or drawn
    with ExitStack() as stack, no_thread_may_fail():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gputui-")))
        if kind == "recording":
            _replay(folder / "job.gputui", random, figures)
        elif kind == "black box":
            _open_black_box(folder / "job.gputui-oom", random, figures)
        else:
            probes = [_probe(stack, folder, random) for _ in range(random.choice((1, 1, 2, 3)))]
            if kind == "terminal":
                run_on_a_terminal(probes, folder, random, figures)
            else:
                _attach(probes, random, figures)
            for probe in probes:
                figures.sent.update(probe.sent)
        figures.cases[kind] += 1


def _probe(stack: ExitStack, folder: Path, random: Random) -> FalseProbe:
    probe = FalseProbe(folder, Random(random.random()))
    stack.callback(probe.close)
    return probe


def _attach(probes: list[FalseProbe], random: Random, figures: Figures) -> None:
    settings = Settings(interval_s=NEVER_S, ascii=random.random() < 0.2)
    app = GputuiApp(settings, StillMachine(_machine()), StillMachine, open_feed=feed_opener(1.0))
    app.attached.first_pids = tuple(probe.pid for probe in probes)
    asyncio.run(_use(app, random, figures, lambda: all(probe.done.is_set() for probe in probes)))


def _replay(path: Path, random: Random, figures: Figures) -> None:
    path.write_bytes(FalseRecording(random).data)
    try:
        recording = Recording(path)
    except NoRecordingError:
        figures.sent["refused"] += 1
        return
    figures.sent["recorded"] += sum(1 for _ in recording.records())
    player = Player(recording, is_playing=random.random() < 0.5)
    settings = Settings(interval_s=NEVER_S)
    app = GputuiApp(settings, player.machine(), StillMachine, open_feed=lambda _: partial(ReplayFeed, player))
    app.attached.is_replay = True
    app.attached.first_pids = tuple(recording.greetings)
    app.attached.first_notices = recording.notices
    asyncio.run(_use(app, random, figures, lambda: True))


def _open_black_box(path: Path, random: Random, figures: Figures) -> None:
    path.write_bytes(FalseBlackBox(random).data)
    try:
        box = read(path)
    except NoBlackBoxError:
        figures.sent["refused"] += 1
        return
    figures.sent["black box"] += 1
    machine = NamedMachine(lambda: box.moment.time, box.failure.hostname)
    feed = partial(_still_feed, box.moment)
    app = GputuiApp(Settings(interval_s=NEVER_S), machine, StillMachine, open_feed=lambda _: feed)
    app.attached.is_replay = app.attached.is_still = True
    app.attached.first_pids = (box.moment.pid,)
    app.attached.first_notices, app.attached.first_screen = box.notices, "why"
    asyncio.run(_use(app, random, figures, lambda: True))


def _still_feed(moment: TargetMoment, _pid: int, take: Callable[[TargetMoment], None]) -> StillFeed:
    return StillFeed(moment, take)


async def _use(app: GputuiApp, random: Random, figures: Figures, is_done: Callable[[], bool]) -> None:
    """Press keys until the case is over, and check what was written."""
    wire = Wire(app)
    async with AsyncExitStack() as stack:
        pilot = await stack.enter_async_context(app.run_test(size=random_size(random), notifications=True))
        presser = Presser(app, Running(app, pilot), random, figures)
        await presser.until(lambda: isinstance(app.screen, AttachScreen))
        await presser.press_at_random()
        await presser.until(is_done)
        await presser.open_every_screen()
    figures.frames += len(wire.sent)
    figures.written_bytes += wire.bytes
    longest = max(len(frame.encode()) for frame in wire.sent)
    figures.longest_bytes = max(figures.longest_bytes, longest)
    assert longest < 200 * 60 * CELL_BYTES
    check_output("".join(wire.sent))


def _machine() -> Snapshot:
    """A machine with the devices that the false probes name."""
    memory = DeviceMemory(80 * GIB, 5 * GIB, 75 * GIB, 0)
    devices = tuple(Device(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", "", memory=memory) for index in range(2))
    return Snapshot(time=1.0, number=1, devices=DeviceLook(Driver("580.95.05", "13.0"), devices))


def main() -> int:
    """Run cases for some minutes, and print figures."""
    parser = argparse.ArgumentParser(description="Fuzz the attach screens.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="where the numbers of the cases begin")
    parser.add_argument("--case", type=int, help="run only the case of this number")
    parser.add_argument("--keep-going", action="store_true", help="go on after a case that failed")
    parsed = parser.parse_args()
    failed: list[int] = []
    figures, end = Figures(), time.monotonic() + parsed.minutes * 60
    number = parsed.seed * 1_000_000 if parsed.case is None else parsed.case
    while True:
        try:
            run_case(number, figures)
        except Exception:  # noqa: BLE001 - whatever it is, it is a finding
            traceback.print_exc()
            print(f"case {number} failed, after {figures}", flush=True)  # noqa: T201
            failed.append(number)
        is_over = parsed.case is not None or time.monotonic() > end
        if is_over or (failed and not parsed.keep_going):
            print(f"failed: {failed or 'none'}; {figures}")  # noqa: T201
            return int(bool(failed))
        number += 1


if __name__ == "__main__":
    sys.exit(main())
