"""Opens the screen of many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.commands.monitor import fit_terminal
from gputui.model.machine.snapshot import Attention
from gputui.settings import Settings

if TYPE_CHECKING:
    from gputui.sampler import Machine
    from gputui.sources.prometheus.reader import Answers


def open_fleet(settings: Settings, answers: Answers, *, is_demo: bool) -> int:
    """Show it until the user quits; returns the exit status."""
    settings = fit_terminal(settings, "gputui fleet --once")

    from gputui.sources.prometheus.machine import FleetMachine

    machine = FleetMachine(answers, is_demo=is_demo)  # the server answers while the rest is imported

    from gputui.ui.app import GputuiApp
    from gputui.ui.screens.fleet.screen import FleetScreen

    first = machine.look(Attention(), settings.interval_s)
    app = GputuiApp(settings, machine, demo_machine, first)
    app.install_screen(FleetScreen(), "fleet")
    app.first_screen = "fleet"
    return app.run_to_end(mouse=settings.mouse)


def demo_machine() -> Machine:
    """A simulated fleet."""
    from gputui.sources.demo.fleet import DemoAnswers
    from gputui.sources.prometheus.machine import FleetMachine

    return FleetMachine(DemoAnswers(), is_demo=True)
