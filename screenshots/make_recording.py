"""Makes the recordings that come with gputui: `python screenshots/make_recording.py [NAME ...]`, all by default.

Each program runs on a fake GPU (`tests/fakegpu`) under $PROGRAM_PYTHON, by default the Python that runs this script,
which needs a CUDA build of PyTorch: `recorded_training.py` until it runs out of memory, and for a while the same
without a mistake, those of `tests/attach/programs/sick.py`, `recorded_server.py`, which needs vLLM, and
`recorded_sglang.py`, which needs SGLang. They are recorded as by `gputui attach --record`, and the files are checked
for paths and names of this machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from psutil import Process

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parent
sys.path.insert(0, str(REPOSITORY))

from gputui.explain.moment.disconnects import sentence  # noqa: E402 - from the repository, not an installed package
from gputui.model.attached.moment import TargetMoment  # noqa: E402
from gputui.model.machine.snapshot import Attention  # noqa: E402
from gputui.sources.files.recording.chunks import FIRST_LINE, HEADER_BYTES, ChunkKind  # noqa: E402
from gputui.sources.files.recording.index import open_file, places_of  # noqa: E402
from gputui.sources.files.recording.reader import Recording  # noqa: E402
from gputui.sources.files.recording.recorder import Chunks, FileRecorder  # noqa: E402
from gputui.sources.files.recording.shipped import EXAMPLES, SERVER, SGLANG, TRAINING, WELL, Example, file_of  # noqa: E402
from gputui.sources.machine import LiveMachine  # noqa: E402
from gputui.sources.probe.feed import AUTOMATIC_S, feed_opener  # noqa: E402
from gputui.sources.probe.listing import list_probes  # noqa: E402
from tests.torches import fake_cuda  # noqa: E402

KIB = 1024
SICK = REPOSITORY / "tests" / "attach" / "programs" / "sick.py"
TRAINING_PROGRAM = FOLDER / "recorded_training.py"
SERVER_PROGRAM = FOLDER / "recorded_server.py"
SGLANG_PROGRAM = FOLDER / "recorded_sglang.py"
LONG_S = 600.0


@dataclass(frozen=True)
class Plan:
    """How to record a program: `look_every_s` is how often to keep a look, and to ask for one with `asks`.

    On a slow machine automatic looks leave the tensors out. Looks that are asked for do not wait for the top of a step.
    """

    program: Path
    bytes_at_most: int
    for_s: float
    look_every_s: float
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    asks: bool = True
    attach_after_s: float = 0.0
    look_pause_s: float = AUTOMATIC_S
    shown_as: str = "train.py"


LARGE = {"SICK_WIDTH": "6144", "SICK_PAUSE_S": "0.7"}
"""As large as a device of 80 GiB makes it worth a word, and slow enough for a small recording."""
OTHERWISE = {
    "graph_kept": {"SICK_BATCH": "16384"},
    "exception_kept": {"SICK_BATCH": "16384"},
    "old_optimizer": {"SICK_WIDTH": "4096"},
    "replay_buffer": {"SICK_PAUSE_S": "0.3"},
}
LOOK_EVERY_S = {"gradients_kept": 2.5}


def plan_of(example: Example) -> Plan:
    """The training by itself, the sick programs with larger models than in the tests."""
    if example is TRAINING:
        return Plan(TRAINING_PROGRAM, 350 * KIB, LONG_S, 3.0)
    if example is WELL:
        return Plan(
            TRAINING_PROGRAM, 200 * KIB, 75.0, 3.0, ("well",), asks=False, attach_after_s=12.0, look_pause_s=0.2
        )
    if example is SERVER:
        return Plan(SERVER_PROGRAM, 80 * KIB, 70.0, 6.0, shown_as="serve.py")
    if example is SGLANG:
        return Plan(SGLANG_PROGRAM, 80 * KIB, 70.0, 6.0, attach_after_s=25.0, shown_as="serve.py")
    name = example.name
    return Plan(SICK, 56 * KIB, 50.0, LOOK_EVERY_S.get(name, 4.0), (name,), LARGE | OTHERWISE.get(name, {}))


def record(pid: int, path: Path, plan: Plan) -> None:
    """Attach when the probe runs, or some time later, and record until the program ends or the time is over."""
    while not (found := [probe.pid for probe in list_probes() if pid in (probe.pid, Process(probe.pid).ppid())]):
        time.sleep(0.05)
    [pid] = found
    time.sleep(plan.attach_after_s)
    recorder = FileRecorder(str(path), hostname="demo")
    machine, ended = LiveMachine(), threading.Event()
    snapshot = machine.look(Attention(), 1.0)

    def listen(moment: TargetMoment) -> None:
        if moment.ended:
            print(sentence(moment.pid, moment.ended))
            ended.set()

    feed = feed_opener(1.0, recorder, plan.look_pause_s)(lambda: snapshot)(pid, listen)
    feed.start()
    ends = time.monotonic() + plan.for_s
    while not ended.wait(plan.look_every_s) and time.monotonic() < ends:
        snapshot = machine.look(Attention(), 1.0)
        if plan.asks:
            feed.look()
    feed.stop()
    recorder.close()


def pack(path: Path, look_every_s: float) -> None:
    """Leave out looks that follow another too soon, and write what is left between two looks as one chunk."""
    recording = Recording(path)
    kept: list[tuple[float, int, str, dict]] = []
    last_s = 0.0
    for place in recording.places:
        if place.header.kind != ChunkKind.RECORDS:
            continue
        for time_s, pid, kind, content in recording.content_at(place):
            if kind != "look_taken":
                kept.append((time_s, pid, kind, content))
            elif time_s - last_s >= look_every_s:
                kept.append((time_s, pid, "message", recording.look_text(pid, content["number"])))
                last_s = time_s
    recording.close()
    path.write_bytes(FIRST_LINE + b"".join(Chunks().of(kept)))


def check(path: Path, bytes_at_most: int, *forbidden: str) -> None:
    """Fail if the file, uncompressed, names this machine."""
    with open_file(path) as file:
        text = b""
        for place in places_of(file)[0]:
            file.seek(place.offset + HEADER_BYTES)
            text += zlib.decompress(file.read(place.header.payload_bytes))
    leaks = [
        word for word in ("/tmp", "/home", "/root", f'"{socket.gethostname()}"', *forbidden) if word.encode() in text
    ]
    print(f"{path}: {path.stat().st_size} bytes, {len(text)} unpacked")
    if leaks or path.stat().st_size > bytes_at_most:
        sys.exit(f"It is too large, or it contains {leaks}.")


def make(example: Example, python: str) -> None:
    """Run the program, and this script again in the environment of the fake GPU to record it."""
    plan = plan_of(example)
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        recording = Path(folder) / "recording"
        shutil.copy(plan.program, Path(folder) / plan.shown_as)
        variables = {**fake_cuda(python, Path(folder), gpus=1), "XDG_RUNTIME_DIR": folder, "GPUTUI_PROBE": "1"}
        preload = variables.pop("LD_PRELOAD")
        environment = {**os.environ, **variables, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
        environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"  # so that the command shows as "python"
        program = subprocess.Popen(
            ["python", plan.shown_as, *plan.arguments],
            cwd=folder,
            env={**environment, **plan.variables, "LD_PRELOAD": preload},
            stdout=subprocess.DEVNULL,
        )
        try:
            its_variables = {**environment, "PROGRAM_PID": str(program.pid), "RECORDING": str(recording)}
            subprocess.run([sys.executable, __file__, example.name], env=its_variables, check=True)
        finally:
            program.kill()
            program.wait()
        pack(recording, plan.look_every_s)
        check(recording, plan.bytes_at_most, folder, str(REPOSITORY), python)
        shutil.copyfile(recording, file_of(example))


def main(names: list[str]) -> None:
    """Make all or some of the recordings, or record a program that runs."""
    chosen = [example for example in EXAMPLES if example.name in names or not names]
    if "PROGRAM_PID" in os.environ:
        record(int(os.environ["PROGRAM_PID"]), Path(os.environ["RECORDING"]), plan_of(chosen[0]))
        return
    for example in chosen:
        make(example, os.environ.get("PROGRAM_PYTHON", sys.executable))


if __name__ == "__main__":
    main(sys.argv[1:])
