"""`gputui export`: a page for Prometheus."""

from __future__ import annotations

import signal
from types import FrameType

from gputui.commands.parser import Parser
from gputui.errors import GputuiError
from gputui.output import narrate
from gputui.settings import Settings

_LISTEN = "127.0.0.1:10836"


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Serve the page until a signal ends it."""
    parsed = _parser().parse(arguments)
    try:
        from gputui.export.application import application
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        cause = "gputui export needs the library prometheus-client, which is not installed."
        raise GputuiError(cause, 'Install it: pip install "gputui[export]".') from error
    from gputui.export.collector import MachineCollector
    from gputui.export.server import Server, address_of
    from gputui.export.sources import Sources
    from gputui.export.web_config import WebConfig, read_web_config

    address = address_of(parsed.listen)
    config = read_web_config(parsed.web_config) if parsed.web_config else WebConfig()
    sources = Sources()
    with Server(address, application(MachineCollector(sources), config.users), config) as server:
        narrate(f"The metrics are at {server.url}metrics")
        signal.signal(signal.SIGTERM, _end)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            sources.close()
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    """End the server on SIGTERM, which systemd and Kubernetes send, as on Ctrl-C."""
    raise KeyboardInterrupt


def _parser() -> Parser:
    parser = Parser(
        prog="gputui export",
        usage="gputui export [--listen HOST:PORT] [--web.config.file FILE]",
        description="Serve a page for Prometheus: GPUs, the processes on them and whose they are, and the counters of "
        "PyTorch's\nallocators in programs with a probe. See docs/export.md.",
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=_LISTEN, help=f"where to listen (default: {_LISTEN}; :PORT for all)"
    )
    parser.add_argument(
        "--web.config.file", metavar="FILE", dest="web_config", help="users, passwords and TLS, as all exporters take"
    )
    return parser
