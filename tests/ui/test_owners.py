"""Whose a process is, on screen: the column, the filter, the tree and the process screen."""

from __future__ import annotations

import pytest

from gputui.model.machine.owner import Owner
from gputui.model.machine.snapshot import Snapshot
from tests.ui import scenes
from tests.ui.monitor import open_monitor

OWNERS = (
    Owner(job="4711", step="0", environment="torch"),
    Owner(job="4711", step="0", job_source="environment", session="tmux $3"),
    Owner(namespace="ml", pod="train-0", container="4f797c539e6c" + "0" * 52, runtime="containerd"),
    Owner(unit="ollama.service"),
)


def node(owners: tuple[Owner, ...] = OWNERS) -> Snapshot:
    together = (scenes.process(1000 + place, place, owner=owner) for place, owner in enumerate(owners))
    return scenes.snapshot(scenes.devices(len(owners)), tuple(together))


async def test_a_column_names_jobs_pods_and_units():
    async with open_monitor(node(), size=(120, 40)) as monitor:
        for name in ("Job", "4711.0", "ml/train-0", "ollama.ser"):
            assert name in monitor.text


@pytest.mark.parametrize(
    ("owners", "width"), [((Owner(environment="torch"),), 120), (OWNERS, 80)], ids=["nothing to say", "no room"]
)
async def test_there_is_no_column(owners, width):
    async with open_monitor(node(owners), size=(width, 24)) as monitor:
        assert "Job" not in monitor.text
        assert "train.py" in monitor.text


@pytest.mark.parametrize(
    ("text", "pids"),
    [
        ("job==4711", {1000, 1001}),
        ("job==4711 and session~tmux", {1001}),
        ("namespace==ml", {1002}),
        ("unit==ollama.service", {1003}),
        ("env==torch", {1000}),
        ("train-0", {1002}),
    ],
)
async def test_a_filter_by_owner(text, pids):
    async with open_monitor(node(), size=(120, 40)) as monitor:
        await monitor.press("slash", *text, "enter")
        assert {pid for pid in range(1000, 1004) if f" {pid} " in monitor.text} == pids


async def test_enter_on_a_job_in_the_tree_folds_it():
    async with open_monitor(node(), size=(120, 40)) as monitor:
        await monitor.press("t", "home", "enter")
        assert "[+] Slurm job 4711" in monitor.text
        assert " 1000 " not in monitor.text


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        (0, ("4711, step 0", "torch")),
        (1, ("4711, step 0 (as its environment says)", "tmux $3")),
        (2, ("ml/train-0", "4f797c539e6c" + "0" * 52 + " (containerd)")),
        (3, ("ollama.service",)),
    ],
)
async def test_the_process_screen_tells_all(place, facts):
    async with open_monitor(node(), size=(120, 40)) as monitor:
        await monitor.press("home", *["down"] * place, "enter")
        for fact in facts:
            assert fact in monitor.text
