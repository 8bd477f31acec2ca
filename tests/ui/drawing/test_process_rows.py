"""Rows of the process table: order, filter, tree."""

import pytest

from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, ProcessLook, Workers
from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDERS, Group, View, process_rows_of
from tests.ui import scenes

UNKNOWN = Absent("insufficient permissions")

THREE = scenes.snapshot(
    scenes.devices(2),
    (
        scenes.process(
            30, 0, 1.0, user="carla", command="c", cpu_percent=5.0, rss_bytes=300,
            identity=Identity(30, scenes.NOW - 10),
        ),
        scenes.process(
            10, 1, 3.0, user="ana", command="b", cpu_percent=UNKNOWN, rss_bytes=UNKNOWN, identity=Identity(10, None)
        ),
        scenes.process(
            20, 1, 2.0, user="ben", command="a", cpu_percent=9.0, rss_bytes=100, identity=Identity(20, scenes.NOW - 20),
            uses=(scenes.use(1, 20, 2.0, sm_percent=90),),
        ),
    ),
)  # fmt: skip


def pids(view: View, scene=THREE) -> list[int | None]:
    return [row.process.pid if row.process else None for row in process_rows_of(scene, view, Appearance())]


@pytest.mark.parametrize(
    ("order", "forward"),
    [
        ("device", [30, 10, 20]),
        ("memory", [10, 20, 30]),
        ("sm", [20, 30, 10]),
        ("pid", [10, 20, 30]),
        ("user", [10, 20, 30]),
        ("cpu", [20, 30, 10]),
        ("rss", [30, 20, 10]),
        ("time", [20, 30, 10]),
        ("command", [20, 10, 30]),
    ],
)
def test_order(order, forward):
    assert pids(View(order=order)) == forward


def test_every_order_has_its_own_letter():
    assert len({order.letter for order in PROCESS_ORDERS}) == len(PROCESS_ORDERS)


@pytest.mark.parametrize("order", [order.name for order in PROCESS_ORDERS])
def test_reversing_changes_the_order(order):
    assert pids(View(order=order, is_reversed=True)) != pids(View(order=order))


def test_an_unknown_order_falls_back_to_the_default():
    assert pids(View(order="colour")) == pids(View())


@pytest.mark.parametrize("order", [order.name for order in PROCESS_ORDERS])
def test_unattributed_memory_comes_last(order):
    assert pids(View(order=order), scenes.node())[-1] is None


def test_a_filter_keeps_only_matching_rows():
    assert pids(View(predicate=lambda row: row.device == "1")) == [10, 20]


def test_a_row_keeps_its_key_in_every_order():
    keys = {row.key for row in process_rows_of(scenes.node(), View(), Appearance())}
    assert len(keys) == 9
    for order in PROCESS_ORDERS:
        assert {row.key for row in process_rows_of(scenes.node(2), View(order=order.name), Appearance())} == keys


def test_a_process_on_a_missing_device_has_no_row():
    assert pids(View(), scenes.snapshot(scenes.devices(1), (scenes.process(1, 0), scenes.process(2, 5)))) == [1]


class TestTree:
    def rows(self, scene) -> list[str]:
        rows = process_rows_of(scene, View(is_tree=True), Appearance())
        return [f"{row.prefix}{row.note or row.process.pid}" for row in rows]

    def test_ranks_are_under_their_job_and_workers_under_their_rank(self):
        scene = scenes.snapshot(scenes.devices(2), (*scenes.job(2000, 2), scenes.process(1)))
        assert self.rows(scene) == [
            "1",
            "[-] job of launcher 2000: 2 of 2 ranks here",
            "├─2010",
            "│ └─2 workers",
            "└─2020",
            "  └─2 workers",
        ]

    def test_workers_are_under_a_process_without_a_job(self):
        crew = Workers(1, 5.0, 100, is_proportional=False)
        scene = scenes.snapshot(scenes.devices(1), (scenes.process(1, workers=crew),))
        assert self.rows(scene) == ["1", "└─1 worker (shared pages counted more than once)"]

    def test_the_memory_of_a_job_is_the_sum_of_its_ranks(self):
        heading = process_rows_of(
            scenes.snapshot(scenes.devices(4), scenes.job(2000, 4)), View(is_tree=True), Appearance()
        )[0]
        assert heading.used_bytes == 4 * 20 * 1024**3

    def test_a_job_whose_memory_is_unknown_has_no_invented_sum(self):
        ranks = tuple(rank._replace(uses=(rank.uses[0]._replace(used_bytes=UNKNOWN),)) for rank in scenes.job(2000, 2))
        heading = process_rows_of(scenes.snapshot(scenes.devices(2), ranks), View(is_tree=True), Appearance())[0]
        assert isinstance(heading.used_bytes, Absent)

    def test_a_job_s_processes_are_under_its_name_with_their_sum(self):
        owned = (
            Owner(job="4711", step="0"),
            Owner(job="4711", step="1"),
            Owner(namespace="ml", pod="train-0"),
            Owner(),
        )
        together = tuple(
            scenes.process(pid, pid % 2, gib=2.0, owner=owner) for pid, owner in enumerate(owned, start=10)
        )
        scene = scenes.snapshot(scenes.devices(2), together)
        assert self.rows(scene) == [
            "[-] Slurm job 4711: 2 processes", "├─10", "└─11", "[-] pod ml/train-0: 1 process", "└─12", "13",
        ]  # fmt: skip
        heading = process_rows_of(scene, View(is_tree=True), Appearance())[0]
        assert heading.used_bytes == 4 * 1024**3

    def test_ranks_are_under_their_slurm_job_and_under_their_launcher_in_a_container(self):
        for owner, title in (
            (Owner(job="4711", container="a" * 64), "Slurm job 4711"),
            (Owner(container="a" * 64, runtime="docker"), "job of launcher 2000"),
        ):
            ranks = tuple(rank._replace(owner=owner) for rank in scenes.job(2000, 2))
            assert self.rows(scenes.snapshot(scenes.devices(2), ranks))[0] == f"[-] {title}: 2 of 2 ranks here"

    def test_a_server_s_processes_are_under_the_one_in_front_with_their_sum(self):
        workers = tuple(scenes.process(pid, pid % 2, gib=30.0)._replace(server_pid=7) for pid in (10, 11))
        scene = scenes.snapshot(scenes.devices(2), workers)
        assert self.rows(scene) == ["[-] server 7: 2 processes", "├─10", "└─11"]
        assert process_rows_of(scene, View(is_tree=True), Appearance())[0].used_bytes == 60 * 1024**3

    def test_a_folded_job_hides_its_processes(self):
        scene = scenes.snapshot(scenes.devices(1), (scenes.process(10, owner=Owner(job="4711")),))
        view = View(is_tree=True, folded_groups=frozenset({Group("Slurm job", "4711")}))
        (heading,) = process_rows_of(scene, view, Appearance())
        assert heading.note == "[+] Slurm job 4711: 1 process"

    def test_a_tree_without_processes_is_empty(self):
        assert self.rows(scenes.node()._replace(processes=ProcessLook())) == []
