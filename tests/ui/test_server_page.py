"""What a server says of itself, on its process's screen: asked by a key, and only where it is a server."""

from __future__ import annotations

import pytest

from gputui.errors import GputuiError
from gputui.model.attached.serving import ServerPage
from tests.ui import scenes
from tests.ui.monitor import open_monitor

PAGE = ServerPage("vLLM", 999, 8000, 53, 77, 0.554, 2e6, 240_000, None, 3)
SIZES = [(80, 24), (120, 40), (200, 50)]


def server(command: str = "VLLM::EngineCore"):
    return scenes.snapshot(scenes.devices(1), (scenes.process(1000, 0, command=command),))


@pytest.mark.parametrize("size", SIZES)
async def test_m_asks_the_server_of_the_process(size):
    asked = []

    def answer(pid: int) -> ServerPage:
        asked.append(pid)
        return PAGE

    async with open_monitor(server(), size=size) as monitor:
        monitor.app.attached.server_page = answer
        await monitor.press("enter", "m")
        await monitor.until(lambda: "53 requests running, 77 waiting" in monitor.text)
        assert "12% of 2,000,000 prompt tokens were found in the prefix cache." in monitor.text
        assert asked == [1000]


async def test_why_it_does_not_answer_is_said():
    def refuse(pid: int) -> ServerPage:
        raise GputuiError(f"Port 8000 of process {pid} does not answer: timed out.", "It may be starting.")

    async with open_monitor(server()) as monitor:
        monitor.app.attached.server_page = refuse
        await monitor.press("enter", "m")
        await monitor.until(lambda: "does not answer: timed out. It may be starting." in monitor.text)


async def test_a_training_has_no_such_key():
    async with open_monitor(server("python train.py")) as monitor:
        monitor.app.attached.server_page = lambda _: PAGE
        await monitor.press("enter", "m")
        assert "Metrics" not in monitor.lines[-1]
        assert "Asking" not in monitor.text


async def test_the_demonstration_asks_nobody():
    async with open_monitor(server()) as monitor:
        await monitor.press("enter", "m")
        assert "Metrics" not in monitor.lines[-1]
        assert "Asking" not in monitor.text
