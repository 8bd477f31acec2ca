"""The document of a run, and the text of it: what differs first, then the figures, and a row for docs/versions.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from benchmarks.real_gpu.nameless import without_names
from benchmarks.real_gpu.place import Place
from benchmarks.real_gpu.result import Result
from gputui import __version__
from gputui.model.reading import value_of
from gputui.sources.nvml.source import NvmlSource

SCHEMA = "gputui.real_gpu/1"
HEADINGS = ("GPU", "driver", "PyTorch", "Python", "date", "gputui", "what differed")


def document_of(place: Place, results: Mapping[str, Result]) -> dict[str, Any]:
    """Everything that was found, as JSON without names."""
    source = NvmlSource()
    try:
        driver = value_of(source.read().driver.version)
    finally:
        source.close()
    parts = {
        name: {
            "differs": [difference._asdict() for difference in result.differs],
            "left_out": result.left_out,
            "figures": result.figures,
        }
        for name, result in results.items()
    }
    document: dict[str, Any] = without_names(
        {
            "schema": SCHEMA,
            "gputui": __version__,
            "is_fake": place.is_fake,
            **{name: place.facts.get(name) for name in ("device", "capability", "torch", "python")},
            "driver": driver,
            "date": datetime.now(timezone.utc).date().isoformat(),
            "parts": parts,
        }
    )
    return document


def row_of(document: Mapping[str, Any]) -> str:
    """The row of the table in docs/versions.md."""
    differs = [one["what"] for part in document["parts"].values() for one in part["differs"]]
    names = ("device", "driver", "torch", "python", "date", "gputui")
    cells = [*(str(document[name]) for name in names), "; ".join(dict.fromkeys(differs)) or "nothing"]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def lines_of(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    """What a part has found."""
    found = part["differs"]
    yield f"{name}: {f'{len(found)} differ' if found else 'left out' if not part['figures'] else 'nothing differs'}"
    for one in found:
        yield f"    ! {one['what']}: {one['found']} (assumed: {one['assumed']})"
    for sentence in part["left_out"]:
        yield f"    - {sentence}"
    for key, value in part["figures"].items():
        shown = ", ".join(f"{inner} {of}" for inner, of in value.items()) if isinstance(value, dict) else value
        yield f"      {key}: {shown}"
