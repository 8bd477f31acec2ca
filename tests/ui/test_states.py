"""Every state of the machine and the terminal: the screen shows what is known and invents nothing."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gputui.model.machine.device import DeviceLook, Driver, Lost
from gputui.model.machine.host import Host
from gputui.model.machine.process import ProcessLook, ProcessState
from gputui.model.machine.snapshot import NOTHING_YET
from gputui.model.reading import Absent, AbsentKind
from tests.scale import sized
from tests.ui import scenes
from tests.ui.monitor import open_monitor

SIZES = [(300, 100), (200, 50), (79, 24), (60, 24), (40, 20), (20, 10), (10, 5), (3, 2), (1, 1)]
OPENERS = {
    "overview": [],
    "device": ["tab", "enter"],
    "process": ["enter"],
    "help": ["question_mark"],
    "sort": ["o"],
    "question": ["K"],
    "signals": ["f9"],
    "filter": ["slash", "m", "e", "m", ">"],
    "palette": ["ctrl+p"],
}


async def test_before_the_first_snapshot_the_screen_shows_no_invented_number():
    async with open_monitor(NOTHING_YET) as monitor:
        assert "gputui" in monitor.lines[0]
        assert "Quit" in monitor.lines[-1]
        assert "0%" not in monitor.text
        assert "knows no device" not in monitor.text
        await monitor.press("plus", "o", "escape", "slash", "escape", "t", "r", "space", "tab", "enter", "T")
        assert "knows no device" not in monitor.text


class TestWithoutNvml:
    SCENE = scenes.snapshot(devices=DeviceLook(problem=scenes.PROBLEM))

    async def test_the_screen_shows_the_problem_the_demonstration_key_and_the_host(self):
        async with open_monitor(self.SCENE, size=(80, 24)) as monitor:
            assert scenes.PROBLEM in monitor.text
            assert "D opens the demonstration" in monitor.text
            assert "RAM" in monitor.text
            assert "No process to show." in monitor.text

    async def test_devices_appear_as_soon_as_nvml_answers(self):
        async with open_monitor(self.SCENE, size=(80, 24)) as monitor:
            await monitor.see(scenes.node(2))
            assert scenes.PROBLEM not in monitor.text
            assert sum("H100" in line for line in monitor.lines) == 8

    async def test_a_later_problem_replaces_the_devices(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.see(scenes.snapshot(devices=DeviceLook(problem=scenes.PROBLEM), number=2))
            assert scenes.PROBLEM in monitor.text
            assert "H100" not in monitor.text

    async def test_keys_for_devices_and_processes_do_nothing(self):
        async with open_monitor(self.SCENE) as monitor:
            await monitor.press("tab", "enter", "tab", "down", "enter", "space", "K")
            assert monitor.screen == "Overview"

    async def test_the_problem_is_never_truncated(self):
        problem = " ".join(["four"] * 16)  # 79 cells
        scene = scenes.snapshot(devices=DeviceLook(problem=problem))
        async with open_monitor(scene, size=(79, 24)) as monitor:
            for width in (79, 80, 81, 82):
                await monitor.resize(width, 24)
                assert " ".join(monitor.text.split()).count("four") == 16, width


async def test_a_driver_without_devices_is_reported():
    async with open_monitor(scenes.snapshot()) as monitor:
        assert "NVML works but reports no devices." in monitor.text


async def test_one_device_takes_one_line():
    async with open_monitor(scenes.snapshot(scenes.devices(1), (scenes.process(),)), size=(80, 24)) as monitor:
        assert monitor.devices.size.height == 2


async def test_sixteen_devices_with_instances_leave_rows_for_processes():
    boards = tuple(board for index in range(16) for board in (scenes.device(index), *scenes.instances(index, 2)))
    processes = tuple(scenes.process(1000 + number, number % 16) for number in range(30))
    async with open_monitor(scenes.snapshot(boards, processes), size=(80, 24)) as monitor:
        assert sum("train.py" in line for line in monitor.lines) >= 8
        await monitor.press("tab", "end")
        assert "15.2 MIG 1g.10gb" in monitor.text
        await monitor.press("enter")
        assert "Device 15.2" in monitor.lines[1]


async def test_a_lost_device_keeps_its_row_and_leaves_the_others_unchanged():
    boards = tuple(
        board._replace(lost=Lost("GPU is lost (XID 79)"), memory=Absent("GPU is lost")) if board.index == 1 else board
        for board in scenes.devices(4)
    )
    async with open_monitor(scenes.snapshot(boards), size=(80, 24)) as monitor:
        assert any("1 " in line and "GPU is lost (XID 79)." in line for line in monitor.lines)
        assert sum("/80.0G" in line for line in monitor.lines) == 3


async def test_stale_numbers_are_marked_in_the_top_line_and_explained():
    async with open_monitor(size=(120, 30)) as monitor:
        await monitor.see(scenes.node(2)._replace(devices_age_s=75.0))
        for width in (120, 80, 60):
            await monitor.resize(width, 30)
            assert "STALE 1:15" in monitor.lines[0]
            assert "The driver has not answered for 1:15" in monitor.text
        await monitor.see(scenes.node(3))
        assert "STALE" not in monitor.text
        assert "has not answered" not in monitor.text


async def test_pause_filter_tags_and_age_fit_together_on_80_columns():
    async with open_monitor(size=(80, 24)) as monitor:
        await monitor.press("slash", *"python", "enter", "space")
        await monitor.see(scenes.node(2)._replace(devices_age_s=75.0))
        await monitor.press("p")
        assert all(words in monitor.lines[0] for words in ("STALE 1:15", "PAUSED", "1 tagged", "filter: python"))


async def test_a_device_that_shares_host_memory_shows_no_byte_count():
    board = scenes.device(
        memory=Absent("not supported by this device", AbsentKind.NOT_SUPPORTED), shares_host_memory=True
    )
    async with open_monitor(scenes.snapshot((board,), (scenes.process(gib=2.0),)), size=(120, 30)) as monitor:
        row = next(line for line in monitor.lines if "H100" in line)
        assert "host memory" in row
        assert "0B" not in row
        await monitor.press("tab", "enter", "end")
        assert "not supported by this device" in monitor.text


async def test_an_absent_reading_is_a_dash_and_never_zero():
    nothing = Absent("insufficient permissions")
    readings = dict.fromkeys(
        (
            "memory", "gpu_utilization_percent", "memory_utilization_percent", "temperature_c", "power_w",
            "power_limit_w", "sm_clock_mhz", "memory_clock_mhz", "pstate", "throttle_reasons", "pcie",
            "ecc_uncorrected", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "slowdown_temperature_c",
            "max_sm_clock_mhz", "energy_j",
        ),
        nothing,
    )  # fmt: skip
    board = scenes.device(7, **readings)
    process = scenes.process(
        1234,
        7,
        user=nothing,
        command=nothing,
        cpu_percent=nothing,
        rss_bytes=nothing,
        uses=(scenes.use(7, 1234, used_bytes=nothing, sm_percent=nothing),),
    )
    scene = scenes.snapshot((board,), (process,), host=Host("node7"))
    async with open_monitor(scene._replace(devices=scene.devices._replace(driver=Driver())), size=(200, 50)) as monitor:
        row = next(line for line in monitor.lines if "H100" in line)
        assert set(row.split()) == {"7", "H100", "80GB", "HBM3", "–"}
        row = next(line for line in monitor.lines if "1234" in line)
        assert row.split()[:3] == ["7", "1234", "C"]
        assert set(row.split()[3:9]) <= {"–", "1h00m", "(insufficient", "permissions)"}
        assert any(line.split()[:2] == ["CPU", "–"] for line in monitor.lines)
        await monitor.press("tab", "enter")
        assert "insufficient permissions" in monitor.text
        await monitor.press("escape", "shift+tab", "enter")
        assert "insufficient permissions" in monitor.text


async def test_a_thousand_processes_scroll_sort_and_filter():
    many = tuple(scenes.process(1000 + number, number % 8, gib=1 + number % 50) for number in range(1000))
    async with open_monitor(scenes.snapshot(scenes.devices(8), many), size=(80, 24)) as monitor:
        assert any(line.endswith(" 1/1000") for line in monitor.lines)
        await monitor.press("o", "g", "end")
        assert any(line.endswith(" 1000/1000") for line in monitor.lines)
        await monitor.press("slash", *"1999", "enter")
        assert monitor.pids == [1999]
        await monitor.press("escape", "t")
        assert len(monitor.pids) == 1000


NAMES = {
    "control characters": "a\x07b\x08c\x7fd\x9be",
    "newlines": "python\n-c\r\nimport torch\n",
    "escape sequences": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
    "tabs": "a\tb",
    "wide": "训练模型 トレーニング 훈련 " * 4,
    "emoji": "🔥🚀 train 🤖" * 6,
    "emoji of several characters": "👩‍👩‍👧 ❤️ 👍🏽 🇩🇪 #️⃣ " * 4,
    "combining characters": "é" * 30 + " ñ a̶b̶c̶",
    "a combining character first": "́abc",
    "combining and wide": "é宽é宽é宽" * 8,
    "right to left": "\u202egnp.exe שלום مرحبا",
    "surrogates of undecodable bytes": "caf\udce9 \udcff.py",
    "markup": "[bold]x[/bold] [link=a]b[/] {x} $y",
    "empty": "",
    "no-break and zero-width spaces": "a\u00a0b\u200bc\u2028d\ufeffe",
}


SCREENS_WITH_NAMES = {"overview": (), "process": ("enter",), "question": ("K",), "tree": ("t",)}


def screens_with(number: int) -> list[tuple[str, tuple[str, ...]]]:
    """In daily use, each name is on one of the screens, each screen has some of the names."""
    screens = [*SCREENS_WITH_NAMES.items()]
    return screens[number % len(screens) :: sized(len(screens), 1)]


class TestNames:
    async def test_unprintable_characters_are_replaced_and_columns_stay_aligned(self):
        async with open_monitor(scenes.snapshot(), size=(80, 24)) as monitor:
            for number, (kind, name) in enumerate(NAMES.items(), start=2):
                evil = scenes.process(1001, command=name, user=name)
                processes = (scenes.process(1000), evil, scenes.process(1002))
                await monitor.see(scenes.snapshot(scenes.devices(1), processes, number=number))
                await monitor.press("home", "down")
                for screen, keys in screens_with(number):
                    await monitor.press(*keys)
                    strips = monitor.app.screen._compositor.render_strips()
                    raw = [strip.text for strip in strips if not strip.text.replace("\u00a0", " ").isprintable()]
                    assert raw == [], (kind, screen)
                    assert {cell_len(strip.text) for strip in strips} == {80}, (kind, screen)
                    assert {strip.cell_length for strip in strips} == {80}, (kind, screen)
                    if keys:
                        await monitor.press("t" if screen == "tree" else "escape")

    async def test_cells_to_the_right_of_a_name_stay_in_their_columns(self):
        async with open_monitor(scenes.snapshot(), size=(80, 24)) as monitor:
            for number, (kind, name) in enumerate(NAMES.items(), start=2):
                evil = scenes.process(1001, command="evil.py", user=name)
                await monitor.see(scenes.snapshot(scenes.devices(1), (scenes.process(1000), evil), number=number))
                first, second = (line for line in monitor.lines if " 1h00m " in line)
                places = [cell_len(line[: line.index(" 1h00m ")]) for line in (first, second)]
                assert places[0] == places[1], kind

    async def test_escape_sequences_in_device_and_host_names_are_replaced(self):
        board = scenes.device(name="NVIDIA \x1b[2JEvil\n", problems=("a\x1b[1;1Hb\n",), lost=None)
        host = scenes.HOST._replace(hostname="node\x1b[2J\n宽")
        scene = scenes.snapshot((board,), host=host)
        async with open_monitor(scene) as monitor:
            for keys in ([], ["tab", "enter"]):
                await monitor.press(*keys)
                strips = monitor.app.screen._compositor.render_strips()
                assert [strip.text for strip in strips if not strip.text.isprintable()] == []
                assert {cell_len(strip.text) for strip in strips} == {120}


class TestTerminalSizes:
    @pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
    async def test_every_screen_fits_every_size(self, size):
        async with open_monitor(size=size) as monitor:
            for number, (name, keys) in enumerate(OPENERS.items(), start=2):
                await monitor.press(*keys)
                assert len(monitor.lines) == size[1], name
                assert all(cell_len(line) <= size[0] for line in monitor.lines), name
                await monitor.see(scenes.node(number))
                await monitor.press(*(["escape"] if keys else []))
                assert monitor.screen == "Overview", name
                monitor.table.focus()

    async def test_the_screen_is_right_after_many_resizes(self):
        async with open_monitor(size=(80, 24)) as monitor:
            right = monitor.text
            for width, height in [(1, 1), (200, 50), (10, 5), (120, 40), (1, 100), (300, 1), (80, 24)]:
                await monitor.pilot.resize_terminal(width, height)
            await monitor.settle()
            assert monitor.text == right

    @pytest.mark.parametrize("size", [(20, 10), (10, 5), (1, 1)], ids=lambda size: f"{size[0]}x{size[1]}")
    async def test_problems_fit_a_tiny_terminal(self, size):
        async with open_monitor(TestWithoutNvml.SCENE, size=size) as monitor:
            assert len(monitor.lines) == size[1]
            for scene in (scenes.node(2, devices_age_s=9.0), scenes.snapshot(number=3)):
                await monitor.see(scene)
                assert len(monitor.lines) == size[1]


async def test_a_problem_with_the_process_list_is_shown_at_the_top():
    look = ProcessLook(problem="This is a container with PIDs of its own. Start it with --pid=host.")
    async with open_monitor(scenes.node()._replace(processes=look)) as monitor:
        assert "--pid=host" in monitor.lines[1]


async def test_an_unusual_process_state_is_shown_in_its_row():
    states = (ProcessState.VANISHED, ProcessState.ELSEWHERE, ProcessState.ZOMBIE, ProcessState.STOPPED)
    odd = tuple(scenes.process(1000 + number, state=state) for number, state in enumerate(states))
    async with open_monitor(scenes.snapshot(scenes.devices(1), odd)) as monitor:
        for process in odd:
            line = next(line for line in monitor.lines if f" {process.pid} " in line)
            assert f"({process.state.value})" in line
