"""Days of a fleet without the wait: samples with times go into a Prometheus' data through promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.export.prometheus import Prometheus, running
from tests.fleet.pages import uuid

STEP_S = 60
HOUR_S = 3600
GIB = 1 << 30


class Series(NamedTuple):
    """A metric with its labels, and its value at each time, None where there is none."""

    name: str
    labels: dict[str, str]
    value: Callable[[int], float | None]


def always(value: float) -> Callable[[int], float | None]:
    return lambda _: value


def until(end: int, value: float = 1) -> Callable[[int], float | None]:
    return lambda time: value if time <= end else None


def lines(series: Iterable[Series], times: Iterable[int]) -> Iterator[str]:
    """Samples in the format OpenMetrics."""
    times = list(times)
    for one in series:
        labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
        for time in times:
            value = one.value(time)
            if value is not None:
                yield f"{one.name}{{{labels}}} {value} {time}\n"


@contextmanager
def holding(samples: Iterable[str], folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that has these samples, and scrapes nothing."""
    text = folder / "samples.txt"
    with text.open("w") as file:
        file.writelines(samples)
        file.write("# EOF\n")
    data = folder / "data"
    words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text.unlink()
    configuration = folder / "prometheus.yml"
    configuration.write_text(json.dumps({"scrape_configs": []}))
    with running(configuration, data) as prometheus:
        yield prometheus


class Gpu(NamedTuple):
    """A GPU of a fleet; functions of the time where that matters. With a job, a rank holds its memory."""

    node: int
    number: int
    busy: Callable[[int], float | None] = always(0.9)
    used: Callable[[int], float | None] = always(10 * GIB)
    present: Callable[[int], float | None] = always(1)
    lost: float = 0
    job: str = ""
    rank: int = 0
    changes: Callable[[int], float | None] = lambda time: time * 1000.0
    cluster: str = "lab"

    def series(self) -> Iterator[Series]:
        """As gputui's exporter tells of it."""
        at = {"instance": f"n{self.node:03d}:10836", "job": "gputui", "cluster": self.cluster}
        of = {**at, "UUID": uuid(self.node, self.number), "gpu": str(self.number)}

        def there(value: Callable[[int], float | None]) -> Callable[[int], float | None]:
            return lambda time: None if self.present(time) is None else value(time)

        yield Series("gputui_device_info", {**of, "model_name": "NVIDIA H100 80GB HBM3"}, self.present)
        yield Series("gputui_device_busy_ratio", of, there(self.busy))
        yield Series("gputui_device_memory_used_bytes", of, there(self.used))
        yield Series("gputui_device_memory_capacity_bytes", of, there(always(80 * GIB)))
        yield Series("gputui_device_lost", of, there(always(self.lost)))
        if self.job:
            process = {**at, "pid": str(4000 + self.number)}
            texts = {"user": "ana", "program": "train.py", "slurm_job_id": self.job, "rank": str(self.rank)}
            yield Series("gputui_process_info", {**process, **texts, "world_size": "8"}, always(1))
            with_gpu = {**of, "pid": process["pid"]}
            yield Series("gputui_process_memory_used_bytes", with_gpu, self.used)
            ranked = {**with_gpu, "rank": str(self.rank)}
            yield Series("gputui_torch_allocator_changes_total", ranked, self.changes)
