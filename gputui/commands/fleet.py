"""`gputui fleet`: many machines, as a Prometheus tells of them: printed once, or on a screen."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gputui.commands.parser import Parser
from gputui.errors import UsageError
from gputui.model.machine.snapshot import Attention
from gputui.output import is_in_color, output_width, put, put_document
from gputui.settings import Settings, add_flags, apply_flags

if TYPE_CHECKING:
    from gputui.sampler import Machine
    from gputui.sources.prometheus.reader import Answers

_PIPE_COLUMNS = 120


def run(arguments: list[str], settings: Settings) -> int:
    """Open the screen, or print what the options ask for."""
    parsed = _parser().parse(arguments)
    settings = apply_flags(settings, parsed)
    if parsed.json and not parsed.once:
        cause = "--json needs --once."
        raise UsageError(cause, "Use gputui fleet --prometheus URL --once --json.")
    if not parsed.prometheus and not parsed.demo:
        cause = "gputui fleet needs the address of a Prometheus."
        raise UsageError(cause, "Use --prometheus http://HOST:9090, or --demo for a simulated fleet.")
    answers = _answers(parsed)
    if parsed.once:
        return _once(parsed, settings, answers)
    return _open_screen(settings, answers, is_demo=parsed.demo)


def _parser() -> Parser:
    parser = Parser(
        prog="gputui fleet",
        usage="gputui fleet --prometheus URL [options]\n       gputui fleet --demo",
        description="The GPUs of many machines, as the exporters there tell a Prometheus of them: nodes, GPUs, jobs\n"
        "and ranks in one table, and what is wrong with them. See docs/fleet.md.",
    )
    parser.add_argument("--prometheus", metavar="URL", help="the address of the server, such as http://127.0.0.1:9090")
    parser.add_argument(
        "--credentials", metavar="FILE", default="", help="a file with user:password, or with a bearer token"
    )
    parser.add_argument("--ca", metavar="FILE", default="", help="the certificate of the server's authority (PEM)")
    parser.add_argument("--cert", metavar="FILE", default="", help="a certificate for this client (PEM)")
    parser.add_argument(
        "--key", metavar="FILE", default="", help="the key of that certificate, if it is in another file"
    )
    parser.add_argument("--once", action="store_true", help="print all that is known, and exit")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON document")
    parser.add_argument("--demo", action="store_true", help="show a simulated fleet; needs no server")
    add_flags(parser)
    return parser


def _answers(parsed: Namespace) -> Answers:
    if parsed.demo:
        from gputui.sources.demo.fleet import DemoAnswers

        return DemoAnswers()
    from gputui.sources.prometheus.access import access_to
    from gputui.sources.prometheus.client import Server

    return Server(access_to(parsed.prometheus, parsed.credentials, parsed.ca, parsed.cert, parsed.key))


def _once(parsed: Namespace, settings: Settings, answers: Answers) -> int:
    from gputui.explain.fleet.watch import FleetWatch
    from gputui.sources.prometheus.machine import fleet_once

    fleet = fleet_once(answers)
    findings = FleetWatch().take(fleet)
    if parsed.json:
        from gputui.explain.documents.fleet import document

        put_document(document(fleet, findings))
    else:
        from gputui.once.fleet import plain

        put(plain(fleet, findings, output_width(_PIPE_COLUMNS), in_color=is_in_color(settings)))
    return 0


def _open_screen(settings: Settings, answers: Answers, *, is_demo: bool) -> int:
    """Show it until the user quits; returns the exit status."""
    from gputui.commands.monitor import fit_terminal

    settings = fit_terminal(settings, "gputui fleet --once")

    from gputui.sources.prometheus.machine import FleetMachine

    machine = FleetMachine(answers, is_demo=is_demo)  # the server answers while the rest is imported

    from gputui.ui.app import GputuiApp
    from gputui.ui.screens.fleet.screen import FleetScreen

    first = machine.look(Attention(), settings.interval_s)
    app = GputuiApp(settings, machine, _demo_machine, first)
    app.install_screen(FleetScreen(), "fleet")
    app.first_screen = "fleet"
    return app.run_to_end(mouse=settings.mouse)


def _demo_machine() -> Machine:
    """A simulated fleet."""
    from gputui.sources.demo.fleet import DemoAnswers
    from gputui.sources.prometheus.machine import FleetMachine

    return FleetMachine(DemoAnswers(), is_demo=True)
