"""What `empty_cache()` releases, against what the probe predicts: over random programs, and beside a CUDA graph."""

from __future__ import annotations

from benchmarks.real_gpu.place import PROGRAMS, Place
from benchmarks.real_gpu.result import Result, Size
from tests.probe.test_exactness import CONFIGURATIONS
from tests.torches import REPOSITORY

RANDOM = REPOSITORY / "tests" / "probe" / "programs" / "random_release.py"
GRAPH = PROGRAMS / "captured_graph.py"
FIRST_SEED, DEVICES = 2000, 1
SHOWN = 3


def random_programs(place: Place, size: Size) -> Result:
    """The programs of tests/probe/test_exactness.py, with each of its settings."""
    result = Result()
    for configuration in CONFIGURATIONS[: size.configurations]:
        settings, parts, _counts = configuration.values
        numbers = map(str, (FIRST_SEED, size.programs, DEVICES))
        variables = {"PYTORCH_CUDA_ALLOC_CONF": str(settings), "FAKEGPU_EVENT_LAG_MS": "2"}
        report = place.run(RANDOM, *numbers, str(parts), **variables)
        name = f"{configuration.id} ({settings or 'no settings'})"
        wrong = report["mismatches"]
        figures = {"looks": report["looks"], "released, bytes": report["released_bytes"], "wrong": len(wrong)}
        result.figures[name] = figures
        for sentence in wrong[:SHOWN]:
            result.expect(name, "as predicted", sentence, holds=False)
    return result


def captured_graph(place: Place, _size: Size) -> Result:
    """At each stage of a program that captures a training step."""
    result = Result()
    for stage in place.run(GRAPH)["stages"]:
        predicted, released = stage["predicted_bytes"], stage["released_bytes"]
        result.figures[stage["name"]] = {"predicted, bytes": predicted, "released, bytes": released}
        result.expect(f"empty_cache() {stage['name']}, bytes", predicted, released)
    return result
