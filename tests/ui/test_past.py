"""The hours that the record has kept, on screen: back and forward, and what it says where there is nothing."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from gputui.archive.report import past, read_past
from gputui.archive.shares import device_times
from gputui.archive.store import Archive, open_to_read
from gputui.errors import GputuiError
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.owner import Owner
from gputui.model.past import Past
from gputui.ui.screens.past import HOUR_S, begin_of_hour
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor
from tests.ui.test_states import SIZES

THIS_HOUR = begin_of_hour(scenes.NOW)
GPUS = 8


def recorded(path: Path) -> None:
    """Two hours back ana's job ran; an hour back only ben's notebook held a GPU, and another one had an error."""
    archive, watch = Archive(path), Watch()
    for second in range(10, int(2 * HOUR_S), 10):
        is_later = second > HOUR_S
        job = [
            scenes.process(100 + place, place, user="ana", command="python train.py --lr 1", owner=Owner(job="4711"))
            for place in range(GPUS)
        ]
        notebook = scenes.process(200, 3, user="ben", command="python -m ipykernel_launcher -f kernel.json")
        devices = scenes.devices(GPUS)
        if is_later:
            devices = tuple(device._replace(gpu_utilization_percent=0) for device in devices)
            devices = (*devices[:-1], devices[-1]._replace(ecc_uncorrected=2))
        snapshot = scenes.snapshot(devices, (notebook,) if is_later else tuple(job))
        snapshot = snapshot._replace(time=THIS_HOUR - 2 * HOUR_S + second)
        archive.add(snapshot.time, device_times(snapshot, 10.0), watch.take(snapshot, History()))
    archive.close()


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "machine.db"
    recorded(path)
    return path


def reading(path: Path, begin: float, end: float) -> Past:
    database = open_to_read(path)
    try:
        return past(database, begin, end)
    finally:
        database.close()


async def shown(monitor: Monitor, words: str) -> None:
    await monitor.until(lambda: words in " ".join(monitor.text.split()))
    await monitor.settle()


async def test_a_key_shows_the_present_hour_and_goes_back_from_there(record: Path) -> None:
    async with open_monitor(size=(120, 40)) as monitor:
        monitor.app.attached.read_past = partial(reading, record)
        await monitor.press("left_square_bracket")
        await shown(monitor, "Nothing was recorded in this hour. The record goes from")
        await monitor.press("left_square_bracket")
        await shown(monitor, "ipykernel_launcher")
        assert "train.py" not in monitor.text
        assert "! GPU 7: 2 memory errors that ECC could not correct" in monitor.text
        assert "GPU 3 " in monitor.text
        await monitor.press("left_square_bracket")
        await shown(monitor, "train.py")
        assert "4711" in monitor.text
        await monitor.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        await shown(monitor, "Nothing was recorded in this hour.")
        assert "until now" in monitor.lines[1]
        await monitor.press("escape")
        assert monitor.screen == "Overview"


async def test_the_present_hour_is_read_again_as_it_is_written(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "machine.db")
    async with open_monitor(size=(120, 40)) as monitor:
        monitor.app.attached.read_past = partial(reading, tmp_path / "machine.db")
        await monitor.press("left_square_bracket")
        await shown(monitor, "Nothing was recorded in this hour.")
        snapshot = scenes.snapshot(scenes.devices(1), (scenes.process(command="python new.py"),))
        archive.add(THIS_HOUR + 10, device_times(snapshot._replace(time=THIS_HOUR + 10), 10.0), ())
        await monitor.see(scenes.node(2)._replace(time=scenes.NOW + 20))
        await shown(monitor, "new.py")
    archive.close()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_an_hour_is_on_one_screen(record: Path, size: tuple[int, int]) -> None:
    async with open_monitor(size=size) as monitor:
        monitor.app.attached.read_past = partial(reading, record)
        await monitor.press("left_square_bracket", "left_square_bracket")
        await shown(monitor, "GPU 7")
        for words in ("GPU 0 ", "GPU 7 ", "2 memory errors"):
            assert words in monitor.text


async def test_it_fits_every_terminal_and_is_ascii_where_that_is_wanted(record: Path) -> None:
    async with open_monitor(size=(80, 24), ascii=True) as monitor:
        monitor.app.attached.read_past = partial(reading, record)
        await monitor.press("left_square_bracket", *["left_square_bracket"] * 2)
        await shown(monitor, "train.py")
        for width, height in SIZES:
            await monitor.resize(width, height)
            assert len(monitor.lines) <= height
            assert all(line.isascii() and len(line) <= width for line in monitor.lines), (width, height)


async def test_without_a_record_it_says_how_there_will_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with open_monitor(size=(120, 40)) as monitor:
        monitor.app.attached.read_past = read_past
        await monitor.press("tab", "enter", "left_square_bracket")
        await shown(monitor, "There is no record of this machine")
        assert "Run `gputui record` for some time" in " ".join(monitor.text.split())


async def test_another_machine_has_no_past_here() -> None:
    async with open_monitor() as monitor:
        await monitor.press("left_square_bracket")
        assert monitor.screen == "Overview"
        assert "The past is that of this machine" in monitor.notices[0]


def test_a_record_that_is_damaged_is_a_sentence(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gputui").mkdir()
    damaged = tmp_path / "gputui" / "machine.db"
    damaged.write_bytes(record.read_bytes())
    database = sqlite3.connect(damaged)
    database.execute("DROP TABLE rolled")
    database.commit()
    database.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(GputuiError, match="no such table: rolled"):
        read_past(THIS_HOUR - HOUR_S, THIS_HOUR)


async def test_an_answer_that_comes_when_the_screen_was_left_changes_nothing(record: Path) -> None:
    may_read = Event()

    def late(begin: float, end: float) -> Past:
        may_read.wait()
        return reading(record, begin, end)

    async with open_monitor(size=(80, 24)) as monitor:
        monitor.app.attached.read_past = late
        await monitor.press("left_square_bracket")
        assert "Reading the record ..." in monitor.text
        await monitor.press("escape")
        (reader,) = (thread for thread in enumerate_threads() if thread.name == "gputui-past")
        may_read.set()
        reader.join()
        await monitor.settle()
        assert monitor.screen == "Overview"
