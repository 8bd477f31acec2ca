"""The program that runs in the user's Python: `python run.py REQUEST REPORT`.

REQUEST is JSON: `function` ("MODULE:FUNCTION") with `arguments` and `mesh`, or `program` (its words); the `gpu`;
`variables` of the environment that say which rank this is; and what this rank has `received` from the one before.
REPORT is a file for the answer. The output of the user's code goes to standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import signal
import sys
from typing import Any

STEPS = 2
PR_SET_PDEATHSIG = 1
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


class Output:
    """Standard error, which knows whether the last line is complete: that of a progress bar is not.

    On a terminal, it shows a line of gputui's until something else is written.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._last = "\n"
        self._is_shown = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def show(self, words: str) -> None:
        """Show a line of gputui's, if the last line of the program is complete."""
        if self._last == "\n" and self._stream.isatty():
            self._stream.write(f"\r\x1b[K{words}")
            self._stream.flush()
            self._is_shown = bool(words)

    def write(self, text: str) -> Any:
        if self._is_shown:
            self.show("")
        self._last = text[-1:] or self._last
        return self._stream.write(text)

    def complete(self) -> None:
        """Take gputui's line away, and end an incomplete line of the program."""
        if self._is_shown:
            self.show("")
        if self._last != "\n":
            self._stream.write("\n")
        self._stream.flush()


def _load_package() -> Any:
    """Import the package of this file under another name, as gputui need not be importable; returns that name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    name = "_gputui_rehearsal"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return name


def main() -> int:
    """Run the steps and write the report as JSON: only "problem" and "words" where they could not be run."""
    with contextlib.suppress(AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a gputui that is killed leaves nothing running
    request, path = json.loads(sys.argv[1]), sys.argv[2]
    output = Output(sys.stderr)

    def end(report: dict[str, Any]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file)
        output.complete()
        os._exit(0)  # not even the program's threads, handlers and children keep it running

    sys.path[0] = os.getcwd()
    sys.stdout = sys.stderr = output  # type: ignore[assignment]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in RANK_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(request.get("variables", {}))
    try:
        import torch  # noqa: F401
    except ImportError as error:
        end({"problem": "no_torch", "words": str(error)})
    package = _load_package()
    part = lambda name: importlib.import_module(f"{package}.{name}")  # noqa: E731
    gpu = part("gpu").Gpu.of(request.get("gpu", {}))
    job = part("ranks").Job(request.get("mesh", {}), request.get("received", ()))
    if "program" in request:
        part("script").rehearse_program(request["program"], gpu, job, end)
    else:
        end(part("rehearse").report_of(request["function"], request.get("arguments", {}), STEPS, gpu, job))
    return 0


if __name__ == "__main__":
    sys.exit(main())
