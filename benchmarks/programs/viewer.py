"""A viewer that watches one process as the attach screens do, and prints each look that it gets.

    viewer.py PID SECONDS LOOKS_BY_KEY ENOUGH_LOOKS

It is a program of its own so that PYTHONPATH can select the commit of gputui that it uses. Each line of output is a
look as JSON, with the fields of `benchmarks.looks_table.TakenLook`; the last line is the number of seconds watched.
Looks by key are taken only after these seconds, and only if fewer than ENOUGH_LOOKS automatic looks had tensors.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing

from gputui.explain.owners.owners import live_blocks, owners_of
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import HOST, Category
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.listing import CannotAttachError, attach

INTERVAL_S = 1.0
BY_KEY_S = 1.0, 3.0
"""The time between two looks by key, as between automatic ones: right after another, a look costs less, because what it
reads is still in the processor's caches."""
START_S = 180.0
"""How long a program may take until it has allocated memory on a device."""
WARM_UP_S = 5.0


def when_training(pid: int) -> ProbeClient:
    """A connection to the program, made some steps after its first allocation."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            with attach(pid) as client:
                if any(device.allocated_bytes for device in client.statistics().devices):
                    break
        except CannotAttachError:  # the interpreter is starting
            if time.monotonic() > deadline - 1:
                raise
        time.sleep(0.5)
    time.sleep(WARM_UP_S)
    return attach(pid)


def automatic_looks(client: ProbeClient, seconds: float) -> Iterator[Look]:
    """The looks that come without any key pressed."""
    client.subscribe(INTERVAL_S)
    is_waiting = False
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0:
        if not is_waiting:
            client.ask_look("walk", when="changed")
            is_waiting = True
        message = client.receive(left_s)
        if isinstance(message, Look):
            is_waiting = False
            yield message


def looks_by_key(pid: int, count: int) -> Iterator[Look]:
    """Looks asked for at random moments."""
    choose = random.Random(1)
    with attach(pid) as client:
        for _ in range(count):
            time.sleep(choose.uniform(*BY_KEY_S))
            yield client.look()


def described(look: Look, asked: str) -> dict[str, object]:
    """The fields of `TakenLook`."""
    storages = look.inventory.storages if look.inventory else ()
    named_bytes = allocated_bytes = 0
    for device in {segment.device for segment in look.map.segments} if look.map else ():
        owners = owners_of(look.map, look.inventory, device)
        for _, block in live_blocks(look.map, device):
            allocated_bytes += block.size_bytes
            named_bytes += block.size_bytes * (owners[block.address].category is not Category.UNATTRIBUTED)
    return {
        "asked": asked,
        "pause_ms": look.cost.pause_ms,
        "cpu_ms": look.cost.probe_cpu_ms,
        "has_tensors": any(storage.device != HOST for storage in storages),
        "named_bytes": named_bytes,
        "allocated_bytes": allocated_bytes,
        "share_of_peak": max(
            (d.allocated_bytes / max(d.peak_allocated_bytes, 1) for d in look.statistics), default=0.0
        ),
        "problems": [getattr(problem, "text", problem) for problem in look.problems],  # older commits have strings
    }


def put(value: object) -> None:
    print(json.dumps(value), flush=True)


def main() -> None:
    pid, seconds, by_key, enough = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with_tensors = 0
    with closing(when_training(pid)) as client:
        put(described(client.look(), "attach"))
        began = time.monotonic()
        for look in automatic_looks(client, seconds):
            line = described(look, "change")
            with_tensors += bool(line["has_tensors"])
            put(line)
        watched_s = time.monotonic() - began
    if with_tensors < enough:
        for look in looks_by_key(pid, by_key):
            put(described(look, "key"))
    put(watched_s)


if __name__ == "__main__":
    main()
