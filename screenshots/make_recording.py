"""Makes the recording that comes with gputui: `python screenshots/make_recording.py [PYTHON]`.

`recorded_training.py` trains on a fake GPU (`tests/fakegpu`) until it runs out of memory, under PYTHON, by default the
Python that runs this script, which needs a CUDA build of PyTorch. It is recorded as by `gputui attach --record`, and
the file is checked for paths and names of this machine.
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
from pathlib import Path

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parent
sys.path.insert(0, str(REPOSITORY))

from gputui.explain.disconnects import sentence  # noqa: E402 - from the repository, not an installed package
from gputui.model.moment import TargetMoment  # noqa: E402
from gputui.model.snapshot import Attention  # noqa: E402
from gputui.sources.machine import LiveMachine  # noqa: E402
from gputui.sources.probe.feed import feed_opener  # noqa: E402
from gputui.sources.probe.listing import list_probes  # noqa: E402
from gputui.sources.recording.chunks import HEADER_BYTES  # noqa: E402
from gputui.sources.recording.index import open_file, places_of  # noqa: E402
from gputui.sources.recording.recorder import FileRecorder  # noqa: E402
from gputui.sources.recording.shipped import SHIPPED  # noqa: E402
from tests.torches import fake_cuda  # noqa: E402

BYTES_AT_MOST = 350 * 1024
LOOK_EVERY_S = 3.0
"""How often to ask for a look with tensors: on a slow machine automatic looks leave them out."""


def record(pid: int, path: Path) -> None:
    """Attach as soon as the probe runs, and record until the program ends."""
    while pid not in {probe.pid for probe in list_probes()}:
        time.sleep(0.05)
    recorder = FileRecorder(str(path), hostname="demo")
    machine, ended = LiveMachine(), threading.Event()
    snapshot = machine.look(Attention(), 1.0)

    def listen(moment: TargetMoment) -> None:
        if moment.ended:
            print(sentence(moment.pid, moment.ended))
            ended.set()

    feed = feed_opener(1.0, recorder)(lambda: snapshot)(pid, listen)
    feed.start()
    while not ended.wait(LOOK_EVERY_S):
        snapshot = machine.look(Attention(), 1.0)
        feed.look()
    recorder.close()


def check(path: Path, *forbidden: str) -> None:
    """Fail if the file, uncompressed, names this machine."""
    with open_file(path) as file:
        text = b""
        for place in places_of(file)[0]:
            file.seek(place.offset + HEADER_BYTES)
            text += zlib.decompress(file.read(place.header.payload_bytes))
    leaks = [
        word for word in ("/tmp", "/home", "/root", f'"{socket.gethostname()}"', *forbidden) if word.encode() in text
    ]
    if leaks or path.stat().st_size > BYTES_AT_MOST:
        sys.exit(f"{path}: {path.stat().st_size} bytes, and it contains {leaks}")
    print(f"{path}: {path.stat().st_size} bytes, {len(text)} unpacked")


def main(python: str) -> None:
    """Run the program, and this script again in the environment of the fake GPU to record it."""
    if "PROGRAM_PID" in os.environ:
        record(int(os.environ["PROGRAM_PID"]), Path(os.environ["RECORDING"]))
        return
    with tempfile.TemporaryDirectory(prefix="gputui-") as folder:
        recording = Path(folder) / "recording"
        shutil.copy(FOLDER / "recorded_training.py", Path(folder) / "train.py")
        variables = {**fake_cuda(python, Path(folder), gpus=1), "XDG_RUNTIME_DIR": folder, "GPUTUI_PROBE": "1"}
        preload = variables.pop("LD_PRELOAD")
        environment = {**os.environ, **variables, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore"}
        environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"  # so that the command shows as "python"
        command = ["python", "train.py"]
        program = subprocess.Popen(command, cwd=folder, env={**environment, "LD_PRELOAD": preload})
        try:
            recorder_environment = {**environment, "PROGRAM_PID": str(program.pid), "RECORDING": str(recording)}
            subprocess.run([sys.executable, __file__, python], env=recorder_environment, check=True)
        finally:
            program.kill()
            program.wait()
        check(recording, folder, str(REPOSITORY), python)
        shutil.copyfile(recording, SHIPPED)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else sys.executable)
