"""Pages as a scraper reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from gputui.export.collector import MachineCollector, ReadsAll
from tests.hanging import HANGS_S
from tests.torches import REPOSITORY

PLAIN = "text/plain;version=0.0.4"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0"


class Page:
    """The samples of a page."""

    def __init__(self, text: str, kind: str = PLAIN) -> None:
        self.text = text
        families = open_metrics(text) if kind == OPEN_METRICS else plain_text(text)
        self.samples = [sample for family in families for sample in family.samples]

    def of(self, name: str, **labels: object) -> list[float]:
        """The values of the samples with this name and these labels, in order."""
        wanted = {key: str(value) for key, value in labels.items()}.items()
        return [sample.value for sample in self.samples if sample.name == name and wanted <= sample.labels.items()]

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of the samples with this name."""
        return [sample.labels for sample in self.samples if sample.name == name]

    @property
    def names(self) -> set[str]:
        """The names of all samples of gputui's."""
        return {sample.name for sample in self.samples if sample.name.startswith("gputui_")}


class Scrapes:
    """Pages of one exporter in this process."""

    def __init__(self, sources: ReadsAll) -> None:
        self.collector = MachineCollector(sources)
        self._registry = CollectorRegistry()
        self._registry.register(self.collector)

    def page(self) -> Page:
        return Page(generate_latest(self._registry).decode())


def get(url: str, accept: str = PLAIN, headers: Mapping[str, str] | None = None) -> str:
    """What an address answers."""
    request = urllib.request.Request(url, headers={"Accept": accept, **(headers or {})})
    with urllib.request.urlopen(request, timeout=HANGS_S) as answer:
        return answer.read().decode()


@contextmanager
def exporter(*options: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a running `gputui export`."""
    words = [sys.executable, "-m", "gputui", "export", "--listen", "127.0.0.1:0", *options]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
    with subprocess.Popen(words, env=variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _address(process.stderr)
        finally:
            process.terminate()
        assert process.wait(HANGS_S) == 0


def _address(errors: IO[str] | None) -> str:
    assert errors is not None
    line = errors.readline()
    assert line.startswith("gputui: The metrics are at "), line + errors.read()
    return line.removeprefix("gputui: The metrics are at ").strip().removesuffix("metrics")
