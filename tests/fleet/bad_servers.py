"""Servers on loopback that answer as no Prometheus should: each way to fail is a function of the request."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs

from tests.hanging import HANGS_S, POLL_S

Answering = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """A request, with what answers need; it says nothing on standard error."""

    protocol_version = "HTTP/1.1"
    closed: Event
    answering: Answering

    def query(self) -> str:
        """The query, or the path of what is no query."""
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        return form.get("query", [self.path])[0]

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        """A whole answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        type(self).answering(self)

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


class Quiet(ThreadingHTTPServer):
    """Clients that go away are no fault."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@contextmanager
def serving(answering: Answering, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server that answers so."""
    closed = Event()
    handler = type("Handler", (Request,), {"answering": staticmethod(answering), "closed": closed})
    with Quiet(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        closed.set()
        server.shutdown()


def result(*series: tuple[dict[str, str], float]) -> bytes:
    """An answer as Prometheus gives it."""
    rows = [{"metric": labels, "value": [0, str(value)]} for labels, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()


def forbids(request: Request) -> None:
    request.query()
    request.reply(b"no", 403)


def is_a_page(request: Request) -> None:
    request.query()
    request.reply(b"<html>Welcome</html>")


def is_other_json(request: Request) -> None:
    request.query()
    request.reply(b'{"status": "success", "data": {"result": [{"metric": [], "value": "x"}]}}')


def is_deep(request: Request) -> None:
    request.query()
    request.reply(b"[" * 1_000_000)


def fails(request: Request) -> None:
    request.query()
    request.reply(b'{"status": "error", "errorType": "timeout", "error": "query timed out in expression"}', 503)


def moves(request: Request) -> None:
    request.query()
    request.reply(b"", 302, Location="https://login.example/")


def is_endless(request: Request) -> None:
    """A small answer that unpacks to a large one."""
    request.query()
    request.reply(gzip.compress(b" " * (8 << 20)), Content_Encoding="gzip")


def is_not_gzip(request: Request) -> None:
    request.query()
    request.reply(b"no gzip at all", Content_Encoding="gzip")


def hangs_up(request: Request) -> None:
    request.query()
    request.close_connection = True


def is_cut(request: Request) -> None:
    """Ends in the middle of the answer."""
    request.query()
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"status":')
    request.close_connection = True


def is_silent(request: Request) -> None:
    request.query()
    request.closed.wait(HANGS_S)
    request.close_connection = True


def drips(request: Request) -> None:
    """A line that never ends, and is never quiet for long."""
    request.query()
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX-More: ")
    while not request.closed.wait(POLL_S):
        request.wfile.write(b"x")
