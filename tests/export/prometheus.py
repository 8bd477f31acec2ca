"""A real Prometheus on loopback: `apt-get install prometheus`, or the like."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from tests.hanging import HANGS_S, wait_until


class Prometheus:
    """A server that answers queries."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=HANGS_S) as answer:
                return answer.status == 200
        except URLError:
            return False

    def ask(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of what a query finds now."""
        found = self._get(f"query?query={quote(expression)}")["result"]
        return [(series["metric"], float(series["value"][1])) for series in found]

    def await_answer(self, expression: str) -> None:
        """Wait until a query finds something."""
        wait_until(lambda: self.ask(expression), lambda: f"{expression} finds nothing")

    def rules(self) -> list[dict[str, Any]]:
        """The groups of rules, with how they do."""
        groups: list[dict[str, Any]] = self._get("rules")["groups"]
        return groups

    def _get(self, words: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{words}", timeout=HANGS_S) as answer:
            return json.load(answer)["data"]


@contextmanager
def running(configuration: Path, data: Path, port: int = 0) -> Iterator[Prometheus]:
    """A server with this configuration, without a port on one that was free."""
    if not port:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
    words = [f"--config.file={configuration}", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}"]
    log = data.with_suffix(".log")
    with log.open("w") as errors, subprocess.Popen(["prometheus", *words], stderr=errors, stdout=errors) as process:
        try:
            prometheus = Prometheus(f"http://127.0.0.1:{port}", process.pid)
            wait_until(lambda: prometheus.is_ready() or process.poll() is not None, log.read_text)
            assert process.poll() is None, log.read_text()
            yield prometheus
        finally:
            process.terminate()
            process.wait(HANGS_S)
