"""One Prometheus for all tests of answers, which has scraped pages of all exporters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.export.prometheus import Prometheus
from tests.fleet.pages import FLEET
from tests.fleet.serving import scraping


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server that scrapes the pages of `FLEET`."""
    with scraping(FLEET, tmp_path_factory.mktemp("fleet")) as server:
        yield server
