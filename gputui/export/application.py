"""What a request gets: the page, the landing page, or the health check."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

from gputui import __version__
from gputui.export.collector import MachineCollector
from gputui.export.web_config import Users

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LANDING = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>gputui exporter</title></head>
<body><h1>gputui exporter {version}</h1>
<p><a href="/metrics">Metrics</a> of GPUs, the processes on them, and the allocators of PyTorch in them.</p>
{problems}
</body></html>
"""
_TEXT, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"


def application(collector: MachineCollector, users: Users | None = None) -> WSGIApplication:
    """The WSGI application; where `users` are given, others get nothing but an error 401."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    metrics = make_wsgi_app(registry)

    def landing(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return _answer(start, "200 OK", _landing(collector), _HTML)

    def healthy(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return _answer(start, "200 OK", "gputui exporter is healthy.\n")

    def nothing(_: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return _answer(start, "404 Not Found", "The metrics are at /metrics.\n")

    pages: dict[str, Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]] = {
        "/": landing,
        "/metrics": metrics,
        "/-/healthy": healthy,
    }

    def serve(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if users is not None and not users.may_read(environment.get("HTTP_AUTHORIZATION", "")):
            realm = ("WWW-Authenticate", 'Basic realm="gputui"')
            return _answer(start, "401 Unauthorized", "The user or the password is wrong.\n", extra=[realm])
        return pages.get(environment.get("PATH_INFO", ""), nothing)(environment, start)

    return serve


def _landing(collector: MachineCollector) -> str:
    """The landing page, with what the last scrape could not read: texts have no place among metrics."""
    lines = "".join(f"<li>{source.value}: {html.escape(text)}</li>\n" for source, text in collector.problems)
    problems = f"<p>At the last scrape:</p>\n<ul>\n{lines}</ul>" if lines else ""
    return _LANDING.format(version=html.escape(__version__), problems=problems)


def _answer(
    start: StartResponse, status: str, text: str, kind: str = _TEXT, extra: list[tuple[str, str]] | None = None
) -> Iterable[bytes]:
    body = text.encode()
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *(extra or [])])
    return [body]
