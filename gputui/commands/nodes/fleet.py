"""`gputui fleet`: many machines, through ssh or as a Prometheus tells of them: printed once, or on a screen."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Union

from gputui.commands.parser import Parser
from gputui.errors import UsageError
from gputui.model.machine.snapshot import Attention
from gputui.output import is_in_color, output_width, put, put_document
from gputui.settings import Settings, add_flags, apply_flags

if TYPE_CHECKING:
    from gputui.model.fleet.fleet import Fleet
    from gputui.model.machine.finding import MachineFinding
    from gputui.sampler import Machine
    from gputui.sources.prometheus.reader import Answers

    Asked = Union[tuple[str, ...], Answers]

_PIPE_COLUMNS = 120


def run(arguments: list[str], settings: Settings) -> int:
    """Open the screen, or print what the options ask for."""
    parsed = _parser().parse(arguments)
    settings = apply_flags(settings, parsed)
    if parsed.json and not parsed.once:
        cause = "--json needs --once."
        raise UsageError(cause, "Use gputui fleet --prometheus URL --once --json.")
    ways = [bool(parsed.prometheus), bool(parsed.hosts), parsed.demo]
    if not any(ways):
        cause = "gputui fleet needs nodes, or the address of a Prometheus."
        raise UsageError(
            cause, "Use --hosts node1,node2, --prometheus http://HOST:9090, or --demo for a simulated fleet."
        )
    if sum(ways) > 1:
        cause = "--hosts, --prometheus and --demo exclude each other."
        raise UsageError(cause, "Use one of them.")
    asked = _asked(parsed)
    if parsed.once:
        return _once(asked, settings, as_json=parsed.json)
    return _open_screen(asked, settings, is_demo=parsed.demo)


def _parser() -> Parser:
    parser = Parser(
        prog="gputui fleet",
        usage="gputui fleet --hosts node1,node2 [options]\n       gputui fleet --prometheus URL [options]\n"
        "       gputui fleet --demo",
        description="The GPUs of many machines: nodes, GPUs, jobs and ranks in one table, and what is wrong with\n"
        "them. gputui runs on the nodes, through your ssh, or exporters there tell a Prometheus: docs/fleet.md.",
    )
    parser.add_argument(
        "--hosts",
        metavar="NODE",
        nargs="+",
        help="nodes as ssh knows them: node1,node2, or @FILE with one on each line",
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


def _asked(parsed: Namespace) -> Asked:
    """The nodes of --hosts, or the Prometheus (or the demonstration) that answers for all nodes."""
    if parsed.hosts:
        from gputui.sources.hosts.names import nodes_of

        return nodes_of(parsed.hosts)
    if parsed.demo:
        from gputui.sources.demo.fleet import DemoAnswers

        return DemoAnswers()
    from gputui.sources.prometheus.access import access_to
    from gputui.sources.prometheus.client import Server

    return Server(access_to(parsed.prometheus, parsed.credentials, parsed.ca, parsed.cert, parsed.key))


def _all_once(asked: Asked) -> tuple[Fleet, tuple[MachineFinding, ...]]:
    """One look at the whole fleet, and the findings that nodes of --hosts report. Raises `GputuiError`."""
    if isinstance(asked, tuple):
        from gputui.sources.hosts.machine import hosts_once

        return hosts_once(asked)
    from gputui.sources.prometheus.machine import fleet_once

    return fleet_once(asked), ()


def _once(asked: Asked, settings: Settings, *, as_json: bool) -> int:
    from gputui.explain.fleet.watch import FleetWatch

    fleet, told = _all_once(asked)
    findings = FleetWatch().take(fleet, told)
    if as_json:
        from gputui.explain.documents.fleet import document

        put_document(document(fleet, findings))
    else:
        from gputui.once.fleet import plain

        put(plain(fleet, findings, output_width(_PIPE_COLUMNS), in_color=is_in_color(settings)))
    return 0


def _machine(asked: Asked, interval_s: float, *, is_demo: bool) -> Machine:
    if isinstance(asked, tuple):
        from gputui.sources.hosts.machine import HostsMachine

        return HostsMachine(asked, interval_s)
    from gputui.sources.prometheus.machine import FleetMachine

    return FleetMachine(asked, is_demo=is_demo)


def _open_screen(asked: Asked, settings: Settings, *, is_demo: bool) -> int:
    """Show the fleet's screen until the user quits; returns the exit status."""
    from gputui.commands.machine.monitor import fit_terminal

    settings = fit_terminal(settings, "gputui fleet --once")
    machine = _machine(asked, settings.interval_s, is_demo=is_demo)  # reads while the rest is imported

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
