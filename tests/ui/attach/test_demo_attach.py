"""The demonstration's processes with a probe, each of which replays a recorded job."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gputui.commands.machine.monitor import feeds_or_demo
from gputui.settings import Settings
from gputui.sources.demo.scenario import FINETUNE, RANKS
from gputui.sources.demo_machine import DemoMachine
from gputui.sources.files.recording.chunks import HEADER_BYTES
from gputui.sources.files.recording.index import open_file, places_of
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.shipped import SHIPPED
from gputui.sources.files.recording.story import Story
from gputui.ui.app import GputuiApp
from tests.ui.monitor import open_monitor
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
        demo = Running(app, pilot)
        await demo.until(lambda: app.snapshot.processes.processes and app.screen.query("#processes"))
        yield demo


async def test_attaching_to_a_process_with_a_probe_plays_the_recorded_job():
    async with demonstration() as demo:
        pid = FINETUNE
        table = demo.app.screen.query_one("#processes")
        await demo.until(lambda: table.current)
        for _ in range(PRESSES):  # rows may be reordered between presses
            if table.current.process.pid == pid:
                break
            await demo.pilot.press("home" if table.current is table.entries[-1] else "down")
        await demo.pilot.press("enter")
        await demo.pilot.press("a")
        await demo.until(lambda: f"{pid} train.py" in demo.text and "▶ 1x 0" in demo.text)
        assert "DEMONSTRATION" in demo.text
        await demo.pilot.press("right_parenthesis")
        message = f"Process {pid} ended with an error: OutOfMemoryError: CUDA out of memory."
        await demo.until(lambda: message in demo.text)
        await demo.pilot.press("2")
        await demo.until(lambda: "Out of memory: an allocation failed once." in demo.text)
        await demo.pilot.press("escape", "escape")
        await demo.until(lambda: demo.app.screen.query("#processes"))


async def test_a_rank_of_the_job_shows_what_each_step_needs_first():
    async with demonstration() as demo:
        demo.app.attached.attach(RANKS[0])
        await demo.until(lambda: f"{RANKS[0]} train.py" in demo.text)
        await demo.until(lambda: " Each step needs up to 61.0 GiB of the device" in demo.text)
        assert "left after a step" in demo.text


async def test_the_attach_screens_begin_with_the_memory_that_the_list_shows():
    async with demonstration() as demo:
        process = next(one for one in demo.app.snapshot.processes.processes if one.has_probe)
        demo.app.attached.attach(process.identity.pid)
        target = demo.app.attached.targets.current
        await demo.until(lambda: target.moment and target.moment.devices)
        shown = sum(device.driver.process_used_bytes for device in target.moment.held_devices)
        assert shown == pytest.approx(sum(use.used_bytes for use in process.uses), rel=0.15)


async def test_a_key_chooses_among_programs_and_the_header_says_which_is_shown():
    async with demonstration() as demo:
        before = {one.pid for one in demo.app.snapshot.processes.processes}
        for letter, title, holder, next_screen in (
            ("b", "no_grad forgotten", "scores (train.py:", "1"),
            ("f", "gradients never freed", "of gradients of wide are kept", "4"),
            ("h", "a second model for its average", "ema is a second copy of net", ""),
        ):
            await demo.pilot.press("E")
            await demo.until(lambda title=title: title in demo.text)
            await demo.pilot.press(letter)
            await demo.until(lambda holder=holder: holder in demo.text)
            assert f"DEMONSTRATION: {title}" in demo.lines[0]
            if next_screen:  # from which the next program is chosen
                await demo.pilot.press(next_screen)
        (target,) = demo.app.attached.targets.all
        listed = [one for one in demo.app.snapshot.processes.processes if one.pid not in before]
        assert [one.pid for one in listed] == [target.feed.pid]
        shown = sum(device.driver.process_used_bytes for device in target.moment.held_devices)
        assert shown == pytest.approx(sum(use.used_bytes for use in listed[0].uses), rel=0.15)


async def test_the_key_for_examples_does_nothing_outside_the_demonstration():
    async with open_monitor() as monitor:
        await monitor.press("E")
        assert monitor.screen == "Overview"
        assert "Example" not in monitor.text


async def test_escape_leaves_the_list_of_examples_and_changes_nothing():
    async with demonstration() as demo:
        await demo.pilot.press("E", "escape")
        await demo.until(lambda: demo.app.screen.query("#processes"))
        assert demo.app.snapshot.example == ""
        assert not demo.app.attached.targets.all


async def test_two_processes_play_the_job_under_their_own_pids():
    async with demonstration() as demo:
        pids = [one.pid for one in demo.app.snapshot.processes.processes if one.has_probe][:2]
        demo.app.attached.attach(*pids)
        await demo.until(lambda: all(target.moment for target in demo.app.attached.targets.all))
        assert [target.moment.pid for target in demo.app.attached.targets.all] == pids


async def test_a_process_without_a_probe_gets_an_error():
    async with demonstration() as demo:
        pid = next(one.pid for one in demo.app.snapshot.processes.processes if not one.has_probe)
        demo.app.attached.attach(pid)
        await demo.until(lambda: demo.app._notifications)
        message = next(iter(demo.app._notifications)).message
        assert message.startswith(f"Process {pid} of the demonstration has no probe.")
        assert not demo.app.attached.targets.all


def test_the_shipped_recording_is_small_complete_and_free_of_machine_details():
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


def test_the_recorded_job_has_an_error_marks_and_every_main_category():
    moments = list(Story(Recording(SHIPPED)).moments())
    assert "OutOfMemoryError: CUDA out of memory" in moments[-1].ended.detail
    labels = {"model on the device", "after forward", "after backward", "after step", "after validation"}
    assert labels == {mark.label for mark in moments[-1].marks}
    seen = [device.layout.by_category for moment in moments for device in moment.devices if device.layout]
    for kind in ("parameter", "gradient", "optimizer_state", "activation", "other"):
        sums = (sum_of for by_category in seen for category, sum_of in by_category.items() if category.value == kind)
        assert max(sums) > 0, kind
