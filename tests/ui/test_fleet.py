"""The screen of many machines: the demonstration's fleet at one moment, its keys, and what it asks for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.fleet import Trouble, TroubleKind
from gputui.model.fleet.parts import JobName, Place
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.settings import Settings
from gputui.sources.demo.fleet import DemoAnswers
from gputui.sources.prometheus.reader import Reader
from gputui.ui.app import GputuiApp
from gputui.ui.drawing.fleet.columns import FLEET_COLUMNS
from gputui.ui.drawing.fleet.rows import FLEET_ORDERS
from gputui.ui.screens.fleet import screen as fleet_screen
from gputui.ui.screens.fleet.screen import FleetScreen
from gputui.ui.widgets.fleet_table import FleetTable
from tests.ui import scenes
from tests.ui.monitor import NEVER_S, Size
from tests.ui.running import Running
from tests.ui.test_screens import SIZES


class StillFleet:
    """The demonstration's fleet at one moment, asked for what is on screen at each look."""

    def __init__(self, *, is_demo: bool = False) -> None:
        self.reader = Reader(DemoAnswers(lambda: scenes.NOW), lambda: scenes.NOW)
        self.trouble: Trouble | None = None
        self.attention = FleetAttention()
        self._is_demo, self._number = is_demo, 0

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        self.attention = attention.fleet or FleetAttention()
        for _ in self.reader.steps(self.attention, is_due=False):
            pass
        self._number += 1
        fleet = self.reader.fleet._replace(trouble=self.trouble)
        return Snapshot(scenes.NOW, self._number, interval_s, self._is_demo, fleet=fleet)

    def send_signal(self, identity: Identity, number: int) -> None:
        raise AssertionError

    def close(self) -> None:
        """There is nothing to close."""


class Sitting(Running):
    """The running application on a fleet."""

    def __init__(self, app: GputuiApp, machine: StillFleet, pilot) -> None:
        super().__init__(app, pilot)
        self.machine = machine

    @property
    def table(self) -> FleetTable:
        return self.app.get_screen("fleet").query_one(FleetTable)

    @property
    def names(self) -> list[str]:
        """The rows, from top to bottom."""
        return [row.name for row in self.table.entries]

    async def look(self) -> None:
        """Have the sampler look once more, and draw it."""
        before = self.app.snapshot.number
        self.app._sampler.refresh()
        await self.until(lambda: self.app.snapshot.number > before)
        await self.settle()

    async def open(self, node: str) -> None:
        """Unfold a node, and wait for what it asks for."""
        self.table.move_to(next(row.key for row in self.table.entries if row.name == node))
        await self.press("space")
        await self.until(lambda: Place(node.split("-", maxsplit=1)[0], node) in self.app.snapshot.fleet.devices)
        await self.settle()

    async def show_jobs(self) -> None:
        """Show jobs in place of nodes, and wait for them."""
        await self.press("t")
        await self.until(lambda: self.app.snapshot.fleet.jobs)
        await self.settle()


@asynccontextmanager
async def fleet(size: Size = (120, 40), *, is_demo: bool = False, **settings) -> AsyncIterator[Sitting]:
    machine = StillFleet(is_demo=is_demo)
    app = GputuiApp(Settings(**{"interval_s": NEVER_S, **settings}), machine, lambda: StillFleet(is_demo=True))
    app.install_screen(FleetScreen(), "fleet")
    app.first_screen = "fleet"
    async with app.run_test(size=size, notifications=True) as pilot:
        sitting = Sitting(app, machine, pilot)
        await sitting.until(lambda: app.snapshot.number)
        await sitting.look()
        yield sitting
    app._sampler._thread.join()


async def test_the_table_at_each_size(screen_text) -> None:
    async with fleet(SIZES[0]) as at:
        await at.open("east-03")
        for width, height in SIZES:
            await at.resize(width, height)
            await at.look()
            assert at.text == screen_text(name=f"nodes {width}x{height}")
        await at.show_jobs()
        await at.press("home", "space")
        await at.until(lambda: at.app.snapshot.fleet.ranks)
        for width, height in SIZES:
            await at.resize(width, height)
            assert at.text == screen_text(name=f"jobs {width}x{height}")


async def test_with_ascii_every_cell_is_ascii() -> None:
    async with fleet(ascii=True) as at:
        await at.open("east-03")
        assert at.text.isascii()


async def test_groups_fold_and_stay_folded() -> None:
    async with fleet() as at:
        assert at.names[:3] == ["east", "east-01", "east-02"]
        await at.open("east-01")
        assert at.names[1:4] == ["east-01", "GPU 0", "rank 0/40 pretrain.py"]
        await at.press("down", "down", "left")  # from the process to its GPU, then to the node, then folded
        assert at.table.current.name == "GPU 0"
        await at.press("left")
        assert at.table.current.name == "east-01"
        await at.press("left")
        assert at.names[1:3] == ["east-01", "east-02"]
        await at.press("home", "enter")
        assert at.names[:2] == ["east", "west"]
        await at.look()
        assert at.names[:2] == ["east", "west"]


async def test_only_open_nodes_on_screen_are_asked_for() -> None:
    async with fleet((80, 24)) as at:
        await at.open("east-01")
        assert at.machine.attention.nodes == {Place("east", "east-01")}
        await at.press("end")
        await at.until(lambda: at.machine.attention.nodes == frozenset())
        assert Place("east", "east-01") in at.app.snapshot.fleet.devices  # what is known stays
        assert not at.machine.attention.wants_jobs
        await at.show_jobs()
        assert at.machine.attention.wants_jobs
        await at.press("home", "space")
        await at.until(lambda: at.machine.attention.jobs == {JobName("east", "Slurm job", "4711")})


async def test_graphs_are_asked_for_where_they_are_shown() -> None:
    async with fleet((120, 40)) as at:
        assert at.machine.attention.with_history == frozenset()
        await at.resize(200, 50)
        await at.until(lambda: len(at.machine.attention.with_history) == 18)
        await at.until(lambda: at.app.snapshot.fleet.history)


async def test_each_order_sorts_nodes_within_their_cluster() -> None:
    async with fleet() as at:
        for order in FLEET_ORDERS:
            await at.press("o", order.letter)
            for is_descending in (order.is_descending, not order.is_descending):
                rows = [row for row in at.table.entries if row.place and row.place.cluster == "east"]
                values = [order.value(row) for row in rows]
                assert (order.name, values) == (order.name, sorted(values, reverse=is_descending))
                await at.press("r")


def test_each_order_is_one_of_a_column() -> None:
    assert {order.name for order in FLEET_ORDERS} <= {column.name for column in FLEET_COLUMNS}


FILTERS = {
    "util<5 and gpus>0": ["east", "east-12", "west", "west-6"],
    "west-2": ["west", "west-2"],
    "share>=75 and cluster==east": ["east", "east-01", "east-02", "east-03", "east-04", "east-05"],
    "gone": ["east", "east-07", "east-11"],
    "nothing like it": [],
}


async def test_a_filter_shows_nodes_that_match() -> None:
    async with fleet() as at:
        for text, names in FILTERS.items():
            await at.press("slash", *text, "enter")
            assert (text, at.names) == (text, names)
            await at.press("escape")
            assert len(at.names) == 20


async def test_a_filter_finds_ranks_of_open_nodes() -> None:
    async with fleet() as at:
        await at.open("east-03")
        await at.press("slash", *"rank==21", "enter")
        assert at.names == ["east", "east-03", "rank 21/40 pretrain.py"]


async def test_a_field_that_nothing_has_gives_a_hint() -> None:
    async with fleet() as at:
        await at.press("slash", *"rank==21")
        assert "Nothing here has a value for rank: processes are known once their node is open." in at.text


async def test_enter_on_a_finding_goes_to_its_node() -> None:
    async with fleet((80, 24)) as at:
        await at.press("w")
        assert "east-11: The node is gone: nobody tells of its 8 GPUs any more" in at.text
        await at.press("enter")
        assert at.table.current.name == "east-11"
        assert "▲ gone, with 8 GPUs: nobody tells of it any more" in at.text


async def test_trouble_stands_above_the_table_with_since_when_and_figures_stay() -> None:
    async with fleet((80, 24)) as at:
        at.machine.trouble = Trouble(TroubleKind.SLOW, "It has not answered.", scenes.NOW - 75)
        await at.look()
        assert at.lines[1].startswith(" No answer since 11:58:45 (1:15), figures of 12:00:00: It has not answered.")
        assert "east-01" in at.text
        at.machine.trouble = None
        await at.look()
        assert "No answer" not in at.text


async def test_enter_runs_gputui_on_the_node_through_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(fleet_screen, "visit", lambda _monitor, _app, node, words: visits.append((node, words)))
    async with fleet() as at:
        await at.open("east-01")
        await at.press("enter", "down", "down", "enter")
        (first, words), (second, attach) = visits
        assert (first, words[:4], words[4].endswith("exec gputui'")) == (
            "east-01",
            ["ssh", "-t", "--", "east-01"],
            True,
        )
        assert (second, attach[1:]) == ("east-01", ["-m", "gputui", "attach", "east-01:48213"])
        assert at.names[1:3] == ["east-01", "GPU 0"]  # as it was


async def test_attach_takes_all_processes_of_a_job_wherever_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(fleet_screen, "visit", lambda _monitor, _app, node, words: visits.append((node, words)))
    async with fleet() as at:
        await at.press("a")
        assert at.notices[-1].startswith("Attach to a process, or to a job (t)")
        await at.show_jobs()
        await at.press("home", "a")
        assert at.notices[-1] == "Its processes are not known yet: space asks for them."
        await at.press("space")
        await at.until(lambda: at.app.snapshot.fleet.ranks)
        await at.settle()
        await at.press("a")
        ((node, words),) = visits
        assert (node, words[1:4], len(words)) == ("east-01", ["-m", "gputui", "attach"], 4 + 40)
        assert words[4] == "east-01:48213"
        assert words[-1].startswith("east-05:")


async def test_a_name_that_ssh_could_take_for_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_screen, "can_be_node", lambda node: node != "east-01")
    monkeypatch.setattr(fleet_screen, "visit", lambda *_: pytest.fail("it was visited"))
    async with fleet() as at:
        await at.press("down", "enter")
        assert at.notices == ["east-01 is no name for ssh: the label `node` can give the node one."]


async def test_in_the_demonstration_there_is_no_machine_to_go_to() -> None:
    async with fleet(is_demo=True) as at:
        await at.press("down", "enter")
        assert at.notices == ["This is a demonstration: there is no machine east-01."]


async def test_the_demonstration_and_back() -> None:
    async with fleet() as at:
        await at.press("D")
        await at.until(lambda: at.app.snapshot.is_demo)
        assert "DEMONSTRATION" in at.lines[0]
        await at.press("w", "D")
        await at.until(lambda: not at.app.snapshot.is_demo)
        assert isinstance(at.app.screen, FleetScreen)


async def test_the_help_has_the_keys_of_this_screen_alone() -> None:
    async with fleet((120, 80)) as at:
        await at.press("question_mark")
        assert "Many machines" in at.text
        assert "jobs with their processes, or nodes with their GPUs" in at.text
        assert "SIGTERM" not in at.text
