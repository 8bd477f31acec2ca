"""Writes the pictures of the attach screens: `python screenshots/make_attach.py [PYTHON | server]`.

A small GPT (`training.py`) that keeps too many tensors trains on fake GPUs (`tests/fakegpu`) under PYTHON, by default
the Python that runs this script, which needs a CUDA build of PyTorch. The monitor attaches to it as a user would.
Addresses and times differ from run to run. With `server`, only the picture of the recorded vLLM is written.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual.pilot import Pilot

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parent
sys.path.insert(0, str(REPOSITORY))

from gputui.model.machine.snapshot import Attention, Snapshot  # noqa: E402 - from the repository, not an installed package
from gputui.settings import Settings  # noqa: E402
from gputui.sources.demo.scenario import SERVER  # noqa: E402
from gputui.sources.demo_machine import DemoMachine  # noqa: E402
from gputui.sources.files.recording.shipped import demo_feed  # noqa: E402
from gputui.sources.machine import LiveMachine  # noqa: E402
from gputui.sources.probe.feed import feed_opener  # noqa: E402
from gputui.ui.app import GputuiApp  # noqa: E402
from tests.torches import fake_cuda  # noqa: E402

SIZE = (120, 40)
WATCHED_S = 25.0
"""How long to watch the program before taking pictures: a leak shows over several looks."""

SHOTS = (("memory", "1"), ("why", "2"), ("map", "3"), ("tensors", "4"), ("changes", "5"), ("ranks", "6"))


class NamedMachine(LiveMachine):
    """This machine under a neutral name."""

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """Take a snapshot whose host is "node7"."""
        snapshot = super().look(attention, interval_s)
        return snapshot._replace(host=snapshot.host._replace(hostname="node7"))


async def until(pilot: Pilot[int], condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    while not condition():
        await pilot.pause()
        await asyncio.sleep(0.05)


async def take(pid: int) -> None:
    """Attach to the program and write one picture of each screen."""
    app = GputuiApp(Settings(), NamedMachine(), DemoMachine, open_feed=feed_opener(1.0))
    async with app.run_test(size=SIZE, notifications=False) as pilot:
        await until(pilot, lambda: app.snapshot.number)
        await until(pilot, lambda: _is_attached(app, pid))
        await until(pilot, lambda: app.attached.targets.current and app.attached.targets.current.device_moment)
        await asyncio.sleep(3)
        await pilot.press("m")
        await asyncio.sleep(WATCHED_S)
        for name, key in SHOTS:
            await pilot.press(key)
            await asyncio.sleep(2.5)
            await look_at_tensors(app, pilot)
            picture = app.export_screenshot(title="gputui")
            (FOLDER / f"attach-{name}.svg").write_text(picture, encoding="utf-8")
            print(f"attach-{name}.svg")


async def take_server() -> None:
    """Write the picture of the demonstration's vLLM."""
    machine = DemoMachine()
    app = GputuiApp(Settings(), machine, lambda: machine, open_feed=lambda snapshot: partial(demo_feed, snapshot))
    async with app.run_test(size=SIZE, notifications=False) as pilot:
        await until(pilot, lambda: app.snapshot.number)
        await until(pilot, lambda: _is_attached(app, SERVER))
        await until(pilot, lambda: app.attached.targets.current and app.attached.targets.current.device_moment)
        await asyncio.sleep(3)
        (FOLDER / "attach-server.svg").write_text(app.export_screenshot(title="gputui"), encoding="utf-8")
        print("attach-server.svg")


async def look_at_tensors(app: GputuiApp, pilot: Pilot[int]) -> None:
    """Ask for looks until the screen has tensors: on a slow machine automatic looks leave them out."""

    def has_tensors() -> bool:
        target = app.attached.targets.current
        moment, device = (target.moment, target.device_moment) if target else (None, None)
        return bool(moment and device and device.layout and device.layout.names_time == moment.look_time)

    while not has_tensors():
        await pilot.press("u")
        await asyncio.sleep(0.3)
    await pilot.pause()


def _is_attached(app: GputuiApp, pid: int) -> bool:
    """Try to attach, which succeeds once PyTorch is imported and the probe runs."""
    if not app.attached.targets.all:
        app.attached.attach(pid)
    return bool(app.attached.targets.all)


def main(python: str) -> None:
    """Run the program, and this script again in the environment of the fake GPUs to take the pictures."""
    if "PROGRAM_PID" in os.environ:
        asyncio.run(take(int(os.environ["PROGRAM_PID"])))
        return
    asyncio.run(take_server())
    if python == "server":
        return
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        variables = {**fake_cuda(python, Path(folder)), "XDG_RUNTIME_DIR": folder, "GPUTUI_PROBE": "1"}
        preload = variables.pop("LD_PRELOAD")
        environment = {**os.environ, **variables, "PYTHONPATH": str(REPOSITORY)}
        environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"  # so that the command shows as "python"
        command = ["python", "-W", "ignore", "training.py"]
        program = subprocess.Popen(command, cwd=FOLDER, env={**environment, "LD_PRELOAD": preload})
        try:
            again = {**environment, "PROGRAM_PID": str(program.pid)}
            subprocess.run([sys.executable, __file__, python], env=again, check=True)
        finally:
            program.kill()
            program.wait()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else sys.executable)
