"""Listens on an address, and serves each request in a thread, so that a slow client keeps no other waiting."""

from __future__ import annotations

import errno
import socket
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from gputui.errors import GputuiError, UsageError
from gputui.export.web_config import WebConfig

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_EXAMPLE = "127.0.0.1:10836"
_PATIENCE_S = 15.0


class Address(NamedTuple):
    """Where to listen; the host "" stands for every address of this machine."""

    host: str
    port: int


def address_of(words: str) -> Address:
    """The address in `HOST:PORT`, `[IPv6]:PORT` or `:PORT`. Raises `UsageError` for anything else."""
    host, colon, port = words.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and host[:1] + host[-1:] != "[]"):
        cause = f"{words!r} is not an address to listen on."
        raise UsageError(cause, f"It is a host and a port, such as {_EXAMPLE}; without a host, every address is meant.")
    return Address(host.strip("[]"), int(port))


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S
    """Seconds that a client may take to send its request or to read the answer."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
        """Logs nothing: a line for each scrape would tell nobody anything."""


class Server(ThreadingMixIn, WSGIServer):
    """Serves an application over HTTP, or HTTPS with `config.tls`; port 0 asks the system for a free port."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, address: Address, application: WSGIApplication, config: WebConfig) -> None:
        self.address_family, place = _resolved(address)
        try:
            super().__init__(place, _Handler)
        except OSError as error:
            raise _not_listening(address, error) from error
        self.set_app(application)
        if config.tls is not None:  # the handshake is made in the thread of the request
            self.socket = config.tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "https" if config.tls else "http"

    @property
    def url(self) -> str:
        """The address for a browser, with the real port."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, (bytes, bytearray)) else str(host)
        return f"{self.scheme}://{f'[{name}]' if ':' in name else name}:{port}/"

    def server_bind(self) -> None:
        """Binds like the library's method, which also asks a name server for this machine's name, perhaps for long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Prints nothing: a client that goes away or speaks another protocol is no fault of this program."""


def _resolved(address: Address) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        cause = f"There is no address {address.host!r}."
        raise UsageError(cause, "Name one of this machine's, such as 127.0.0.1.") from error
    family, _, _, _, place = found[0]
    return family, place


def _not_listening(address: Address, error: OSError) -> GputuiError:
    where = f"{address.host or 'every address'}, port {address.port}"
    if error.errno == errno.EADDRINUSE:
        cause = f"Another program listens on {where} already."
        return GputuiError(cause, "`ss -ltnp` says which; choose another port with --listen HOST:PORT.")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"This machine has no address {address.host}.", "`ip address` lists those it has.")
    cause = f"gputui cannot listen on {where}: {error.strerror}."
    return GputuiError(cause, "Ports below 1024 need root." if error.errno == errno.EACCES else "")
