"""Pages on loopback, and a Prometheus that scrapes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.export.prometheus import Prometheus, running


@contextmanager
def pages_of(pages: Mapping[str, str]) -> Iterator[str]:
    """Serve each page under its name; the address of the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.strip("/"))
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((page or "").encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def scraping(pages: Mapping[str, str], folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that has scraped each page, as that of a node of the cluster "lab"."""
    with pages_of(pages) as address:
        targets = [
            {"targets": [address], "labels": {"instance": name, "cluster": "lab", "__metrics_path__": f"/{name}"}}
            for name in pages
        ]
        job = {"job_name": "gpus", "scrape_interval": "1s", "static_configs": targets}
        configuration = folder / "prometheus.yml"
        configuration.write_text(json.dumps({"scrape_configs": [job]}))
        with running(configuration, folder / "data") as prometheus:
            prometheus.await_answer(f'count(up{{job="gpus"}} == 1) == {len(pages)}')
            yield prometheus
