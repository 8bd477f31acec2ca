"""What libraries would cost in place of our own code: sqlite3 for recordings, msgspec for the viewer's decoding.

    pip install -e . --group bench && python -m benchmarks.alternatives

It compares them with gputui's code in one run, on the shipped recording and on looks with many blocks.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from time import process_time
from typing import Any

import msgspec

from gputui.errors import GputuiError
from gputui.model.attached.allocator import Block, BlockState, Segment
from gputui.model.attached.target import Look
from gputui.model.decode import decode
from gputui.protocol import frames
from gputui.sources.files.recording.chunks import HEADER_BYTES, ChunkKind, content_of, write_chunk
from gputui.sources.files.recording.index import open_file, places_of
from gputui.sources.files.recording.reader import Recording

SHIPPED = Path(__file__).parents[1] / "gputui" / "sources" / "files" / "recording" / "training.gputui"
ROUNDS = 7
DAMAGES = 200


def cpu_ms(work: Callable[[], object]) -> float:
    """Processor time of a call: the median of `ROUNDS`."""
    times = []
    for _ in range(ROUNDS):
        began = process_time()
        work()
        times.append((process_time() - began) * 1000)
    return statistics.median(times)


def largest_look() -> Look:
    """The look of the shipped recording with the most blocks."""
    recording = Recording(SHIPPED)
    pid = next(iter(recording.greetings))
    looks = [seen[0] for number in range(1, 60) if (seen := recording.look(pid, number))]
    recording.close()
    return max(looks, key=lambda look: sum(len(segment.blocks) for segment in look.map.segments) if look.map else 0)


def with_blocks(look: Look, count: int) -> bytes:
    """The look as a probe sends it, with `count` blocks in its map."""
    assert look.map
    blocks = [Block(n * 512, 512, 500, BlockState.ACTIVE_ALLOCATED) for n in range(count)]
    segment = Segment(0, 0, count * 512, 0, is_small=False, is_expandable=False, pool_id=(0, 0), blocks=tuple(blocks))
    return json.dumps({"type": "look", **asdict(replace(look, map=replace(look.map, segments=(segment,))))}).encode()


def compare_decoding() -> None:
    """Print the milliseconds to decode a look; msgspec checks types, but neither ranges nor characters."""
    look = largest_look()
    fast = msgspec.json.Decoder(Look)
    print("decoding a look, ms of processor time | ours | json.loads alone | msgspec, types alone")
    for count in (1_500, 50_000):
        payload = with_blocks(look, count)
        parts: list[Callable[[], Any]] = [
            lambda data=payload: decode(Look, json.loads(data)),
            lambda data=payload: json.loads(data),
            lambda data=payload: fast.decode(data),
        ]
        print(f"  {count:,} blocks, {len(payload):,} bytes | " + " | ".join(f"{cpu_ms(part):.1f}" for part in parts))
    for module in ("gputui.model.decode", "msgspec"):
        print(f"  import {module}: {import_ms(module):.1f} ms")


def import_ms(module: str) -> float:
    """Milliseconds of processor time to import a module after json."""
    code = f"import json, time; began = time.process_time(); import {module}; print(time.process_time() - began)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(ROUNDS)]
    return statistics.median(runs) * 1000


def shipped_chunks() -> list[tuple[int, int, int, float, object]]:
    """Kind, PID, number, time and content of each chunk of the shipped recording."""
    with open_file(SHIPPED) as file:
        places, _ = places_of(file)
        chunks = []
        for place in places:
            file.seek(place.offset)
            header = place.header
            content = content_of(file.read(HEADER_BYTES), file.read(header.payload_bytes))
            chunks.append((header.kind, header.pid, header.number, header.time, content))
    return chunks


def write_ours(path: Path, chunks: list[tuple[int, int, int, float, object]]) -> None:
    """Write a recording as gputui does, one write per chunk."""
    with path.open("wb", buffering=0) as file:
        file.write(SHIPPED.read_bytes().split(b"\n")[0] + b"\n")
        for kind, pid, number, time, content in chunks:
            file.write(write_chunk(ChunkKind(kind), pid, time, content, number))


def write_sqlite(path: Path, chunks: list[tuple[int, int, int, float, object]]) -> None:
    """Write the same chunks as rows, one transaction each, with the same compression."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("CREATE TABLE chunks (kind INT, pid INT, number INT, time REAL, content BLOB)")
        for kind, pid, number, time, content in chunks:
            row = write_chunk(ChunkKind(kind), pid, time, content, number)[HEADER_BYTES:]
            database.execute("INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", (kind, pid, number, time, row))
            database.commit()
    database.close()


def readable_ours(path: Path) -> int:
    """The number of readable chunks."""
    try:
        with open_file(path) as file:
            return len(places_of(file)[0])
    except GputuiError:  # the damaged page contains the first line
        return 0


def readable_sqlite(path: Path) -> int:
    """The number of readable rows, including rows whose damage goes unnoticed."""
    database = sqlite3.connect(path)
    count = 0
    try:
        for _ in database.execute("SELECT content FROM chunks"):
            count += 1
    except sqlite3.DatabaseError:
        pass
    finally:
        database.close()
    return count


def compare_recordings() -> None:
    """Print size, processor time to write, and how much survives when one page of 4 KiB is overwritten."""
    chunks = shipped_chunks()
    with tempfile.TemporaryDirectory() as name:
        ours, rows = Path(name, "ours"), Path(name, "rows")
        times = [cpu_ms(lambda: write_ours(ours, chunks))]
        times.append(cpu_ms(lambda: (rows.unlink(missing_ok=True), write_sqlite(rows, chunks))))
        print(f"a recording of {len(chunks)} chunks | ours | sqlite3")
        print(f"  bytes | {ours.stat().st_size:,} | {rows.stat().st_size:,}")
        print(f"  ms of processor time to write | {times[0]:.0f} | {times[1]:.0f}")
        left = []
        for path, readable in ((ours, readable_ours), (rows, readable_sqlite)):
            whole, random_places = path.read_bytes(), random.Random(1)
            shares = []
            for _ in range(DAMAGES):
                at = random_places.randrange(0, len(whole) // 4096) * 4096
                path.write_bytes(whole[:at] + random_places.randbytes(4096) + whole[at + 4096 :])
                shares.append(readable(path) / len(chunks))
            left.append(shares)
        print(
            f"  chunks readable with one damaged page, mean of {DAMAGES} | "
            + " | ".join(f"{100 * statistics.mean(shares):.1f} %" for shares in left)
        )
        print(
            "  damages that leave less than half of it | "
            + " | ".join(f"{sum(share < 0.5 for share in shares)}" for shares in left)
        )


def main() -> None:
    """Print both comparisons."""
    assert frames.MAX_PARTS  # both ends limit the size of decoded messages, which neither library does
    compare_decoding()
    compare_recordings()


if __name__ == "__main__":
    main()
