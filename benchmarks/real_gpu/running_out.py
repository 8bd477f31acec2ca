"""An out-of-memory error that the driver itself causes: whether the black box has it, to the byte."""

from __future__ import annotations

import json
import subprocess

from benchmarks.real_gpu.place import HANGS_S, PRELOAD, PROGRAMS, Place
from benchmarks.real_gpu.result import Result, Size
from gputui.sources.files.black_box import read
from tests.torches import REPOSITORY

PROGRAM = PROGRAMS / "running_out.py"


def running_out(place: Place, _size: Size) -> Result:
    """Run a program that asks for twice the device, and read what it has left."""
    result, folder = Result(), place.folder / "black-boxes"
    command = ["setpriv", "--pdeathsig", "KILL", place.python, "-W", "ignore", str(PROGRAM)]
    variables = place.with_probe(PYTHONPATH=f"{PRELOAD}:{REPOSITORY}", GPUTUI_BLACK_BOX=str(folder))
    ended = subprocess.run(
        command, check=False, env=variables, capture_output=True, text=True, timeout=HANGS_S, cwd=place.folder
    )
    asked = json.loads(ended.stdout.splitlines()[-1])
    boxes = sorted(folder.glob("*"))
    result.expect("black boxes of one error", 1, len(boxes))
    for path in boxes[:1]:
        box = read(path)
        device = box.moment.devices[0]
        sums = device.layout.by_category if device.layout else {}
        result.figures |= {**asked, "size of the black box, bytes": path.stat().st_size}
        result.expect("the request in it, bytes", asked["requested_bytes"], box.failure.requested_bytes)
        result.expect("allocated in it, bytes", asked["allocated_bytes"], device.statistics.allocated_bytes)
        result.expect("its categories together, bytes", asked["allocated_bytes"], sum(sums.values()))
    return result
