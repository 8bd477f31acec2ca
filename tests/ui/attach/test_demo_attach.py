"""The demonstration's processes with a probe: a recorded job runs inside them."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gputui.commands.monitor import feeds_or_demo
from gputui.settings import Settings
from gputui.sources.machine import DemoMachine
from gputui.sources.recording.chunks import HEADER_BYTES
from gputui.sources.recording.index import open_file, places_of
from gputui.sources.recording.reader import Recording
from gputui.sources.recording.shipped import SHIPPED
from gputui.sources.recording.story import Story
from gputui.ui.app import GputuiApp
from tests.ui.running import Running

PRESSES = 100


def no_probes(_snapshot):
    def attach(pid, _listener):
        raise AssertionError(pid)

    return attach


@asynccontextmanager
async def demonstration() -> AsyncIterator[Running]:
    app = GputuiApp(Settings(), DemoMachine(), DemoMachine, open_feed=feeds_or_demo(no_probes))
    async with app.run_test(size=(120, 40)) as pilot:
        shown = Running(app, pilot)
        await shown.until(lambda: app.snapshot.processes.processes and app.screen.query("#processes"))
        yield shown


async def test_behind_the_sign_of_a_probe_a_recorded_job_runs():
    async with demonstration() as shown:
        pid = next(each.pid for each in shown.app.snapshot.processes.processes if each.has_probe)
        table = shown.app.screen.query_one("#processes")
        await shown.until(lambda: table.current)
        for _ in range(PRESSES):  # rows may change places meanwhile
            if table.current.process.pid == pid:
                break
            await shown.pilot.press("home" if table.current is table.entries[-1] else "down")
        await shown.pilot.press("enter")
        await shown.pilot.press("a")
        await shown.until(lambda: f"{pid} python train.py" in shown.text and "▶ 1x 00:" in shown.text)
        assert "DEMONSTRATION" in shown.text
        await shown.pilot.press("right_parenthesis")
        said = f"Process {pid} ended with an error: OutOfMemoryError: CUDA out of memory."
        await shown.until(lambda: said in shown.text)
        await shown.pilot.press("2")
        await shown.until(lambda: "Out of memory: an allocation failed once." in shown.text)
        await shown.pilot.press("escape", "escape")
        await shown.until(lambda: shown.app.screen.query("#processes"))


async def test_two_processes_play_each_their_own():
    async with demonstration() as shown:
        pids = [each.pid for each in shown.app.snapshot.processes.processes if each.has_probe][:2]
        shown.app.attached.attach(*pids)
        await shown.until(lambda: all(target.moment for target in shown.app.attached.targets.all))
        assert [target.moment.pid for target in shown.app.attached.targets.all] == pids


async def test_a_process_without_the_sign_gets_the_usual_sentence():
    async with demonstration() as shown:
        pid = next(each.pid for each in shown.app.snapshot.processes.processes if not each.has_probe)
        shown.app.attached.attach(pid)
        await shown.until(lambda: shown.app._notifications)
        said = next(iter(shown.app._notifications)).message
        assert said.startswith(f"Process {pid} of the demonstration has no probe.")
        assert not shown.app.attached.targets.all


def test_what_is_shipped_is_small_whole_and_says_nothing_of_a_machine():
    assert SHIPPED.stat().st_size < 350 * 1024
    recording = Recording(SHIPPED)
    assert recording.notices == ()
    assert recording.about.hostname == "demo"
    assert 60 < recording.ends - recording.begins < 120
    with open_file(SHIPPED) as file:
        text = b""
        for place in places_of(file)[0]:
            file.seek(place.offset + HEADER_BYTES)
            text += zlib.decompress(file.read(place.header.payload_bytes))
    assert b'"python train.py"' in text
    for word in (b"/tmp", b"/home", b"/root", b"site-packages", b"gputui-", b"envs"):
        assert word not in text, word


def test_the_recorded_job_has_something_of_everything():
    moments = list(Story(Recording(SHIPPED)).moments())
    assert "OutOfMemoryError: CUDA out of memory" in moments[-1].ended.detail
    labels = {"model on the device", "after forward", "after backward", "after step", "after validation"}
    assert labels == {mark.label for mark in moments[-1].marks}
    seen = [device.layout.by_category for each in moments for device in each.devices if device.layout]
    for kind in ("parameter", "gradient", "optimizer_state", "activation", "other"):
        sums = (sum_of for each in seen for category, sum_of in each.items() if category.value == kind)
        assert max(sums) > 0, kind
