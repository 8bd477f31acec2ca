"""Runs a step of training on tensors without data, in the user's Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

from gputui.errors import GputuiError, UsageError, did_you_mean
from gputui.explain.check.devices import KnownDevice
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.trace import Rehearsal
from gputui.own_descriptors import of_child
from gputui.units import MIB

_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rehearsal", "run.py")
GPUS_OF_A_NODE = 8
FORMS = "model, optimizer, batch; with a loss function behind them; model, batch; or a function that takes one step"
"""What the user's function may return, in a sentence."""


def default_python() -> str:
    """The user's Python: that of the active virtual environment, or the first in the PATH, or the one of gputui."""
    environment = os.environ.get("VIRTUAL_ENV")
    if environment and os.access(os.path.join(environment, "bin", "python"), os.X_OK):
        return os.path.join(environment, "bin", "python")
    return shutil.which("python") or shutil.which("python3") or sys.executable


class Surroundings(NamedTuple):
    """Where a step is rehearsed: in which Python, for which GPU, as which rank; `within_s` is how long it may take.

    `mesh` has the sizes of the device mesh by name. `received` is the `Rehearsal.sent` of the rank before: the stages
    of a pipeline tell each other shapes.
    """

    python: str | None = None
    device: KnownDevice | None = None
    world_size: int = 1
    rank: int = 0
    within_s: float | None = None
    mesh: Mapping[str, int] = MappingProxyType({})
    received: tuple[str, ...] = ()

    @property
    def request(self) -> dict[str, Any]:
        """What the process that rehearses is told, as JSON."""
        gpu: dict[str, Any] = {}
        if self.device is not None:
            gpu = {
                "name": self.device.product,
                "total_bytes": self.device.total_mib * MIB,
                "capability": self.device.capability,
                "processors": self.device.processors,
            }
        if self.world_size == 1:
            return {"gpu": gpu}
        here = min(self.world_size, GPUS_OF_A_NODE)
        variables = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.rank % here,
            "LOCAL_WORLD_SIZE": here,
            "GROUP_RANK": self.rank // here,
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": 29500,
        }
        return {
            "gpu": {**gpu, "devices": here},
            "variables": {name: str(value) for name, value in variables.items()},
            "mesh": dict(self.mesh),
            "received": self.received,
        }


def rehearse(
    function: str,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    surroundings: Surroundings = Surroundings(),  # noqa: B008 - it does not change
    paths: Sequence[str] = (),
) -> Rehearsal:
    """The memory requests of a step of the training that "MODULE:FUNCTION" returns. Raises GputuiError.

    The function is called with `arguments` by name, which must be JSON values. Its module is searched in the working
    folder and in `paths`.
    """
    request = {"function": name_of_function(function), "arguments": dict(arguments)}
    return _rehearsed(request, function, surroundings, paths)


def name_of_function(text: str) -> str:
    """The text, if it has the form MODULE:FUNCTION. Raises UsageError."""
    module, _, name = text.partition(":")
    if not (module and name.isidentifier()):
        cause = f"{text!r} names no function."
        raise UsageError(cause, "Write MODULE:FUNCTION, such as train:setup for the function setup in train.py.")
    return text


def rehearse_program(words: Sequence[str], surroundings: Surroundings) -> Rehearsal:
    """The memory requests of the first steps of a program, `train.py ARGUMENT...` or `-m MODULE ARGUMENT...`.

    Raises GputuiError.
    """
    name = words[1] if words[0] == "-m" and len(words) > 1 else words[0]
    if words[0] != "-m" and not os.path.isfile(words[0]):
        cause = f"There is no file {words[0]}."
        raise UsageError(cause, "Name the script that trains: gputui check --run train.py ARGUMENT...")
    return _rehearsed({"program": list(words)}, name, surroundings)


def _rehearsed(
    request: Mapping[str, Any], name: str, surroundings: Surroundings, paths: Sequence[str] = ()
) -> Rehearsal:
    chosen = surroundings.python or default_python()
    text = json.dumps({**request, **surroundings.request}, default=str)
    with TemporaryDirectory(prefix="gputui-") as folder:
        path = os.path.join(folder, "report.json")
        status = _run([chosen, _PROGRAM, text, path], chosen, paths, surroundings.within_s)
        try:
            with open(path, "rb") as file:
                report = json.load(file)
        except (OSError, ValueError):
            cause = f"{chosen} ended with exit status {status} before the step was done."
            raise GputuiError(cause, "What it wrote is above.") from None
    return rehearsal_of(report, name, chosen)


def _run(command: list[str], python: str, paths: Sequence[str], within_s: float | None) -> int:
    variables = {"PYTHONHASHSEED": "0", **os.environ}  # what goes by the order of a set does the same each time
    if paths:
        variables["PYTHONPATH"] = os.pathsep.join(paths)
    outputs = of_child(sys.stdout), of_child(sys.stderr)
    try:
        return subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            env=variables,
            timeout=within_s,
        ).returncode
    except subprocess.TimeoutExpired:
        cause = f"The program took no third step of an optimizer of PyTorch's within {within_s:g} s."
        remedy = "Give it more time with --within 30min, or less to do; or write a step as a function: MODULE:FUNCTION."
        raise GputuiError(cause, remedy) from None
    except OSError as error:
        cause = f"{python} cannot be run: {error.strerror}."
        raise GputuiError(cause, "Name another interpreter with --python PATH.") from None


def _no_torch(words: str, _function: str, python: str) -> GputuiError:
    cause = f"PyTorch cannot be imported by {python}: {words}."
    return GputuiError(cause, "Name the Python of your training with --python PATH.")


def _no_module(_words: str, function: str, python: str) -> GputuiError:
    cause = f"{python} finds no module {function.partition(':')[0]!r}."
    return UsageError(cause, "Start gputui in the folder of the module, or set PYTHONPATH.")


def _no_function(words: str, function: str, _python: str) -> GputuiError:
    module, _, name = function.partition(":")
    cause = f"Module {module!r} has no function {name!r}."
    return UsageError(cause, did_you_mean(name, words.split(", ")) or f"The function returns {FORMS}.")


def _wrong_form(words: str, function: str, _python: str) -> GputuiError:
    cause = f"{function} returned something else than expected: {words}."
    return UsageError(cause, f"It returns {FORMS}.")


def _unsupported(words: str, _function: str, _python: str) -> GputuiError:
    operation, reason, place = words.split("|", 2)
    cause = f"{operation}{f' ({place})' if place else ''} cannot run on tensors without data: {reason}."
    return GputuiError(cause, "Leave it out of the function, or record a real step: gputui whatif PID.")


def _failed(words: str, function: str, _python: str) -> GputuiError:
    told = words.splitlines()[0].rstrip(".:") if words else "no reason given"
    return GputuiError(f"{function} failed on tensors without data: {told}.", "Its traceback is above.")


def _needs_gpu(words: str, function: str, _python: str) -> GputuiError:
    place, _, told = words.partition("|")
    cause = f"{function} needs a GPU to be there{f' at {place}' if place else ''}: {told.splitlines()[0].rstrip('.')}."
    remedy = "Leave that out of what is rehearsed, or record a step of it where there is a GPU: gputui whatif PID."
    return GputuiError(cause, remedy)


def _exited(words: str, function: str, _python: str) -> GputuiError:
    status, _, steps = words.partition("|")
    after = "before its first step" if steps == "0" else f"after {steps} steps" if steps != "1" else "after one step"
    return GputuiError(f"{function} ended with exit status {status} {after}.", "What it wrote is above.")


def _no_memory(_words: str, function: str, _python: str) -> GputuiError:
    cause = f"{function} ended without asking for GPU memory."
    return GputuiError(
        cause, "Name the script that trains, with its arguments; a model stays in host memory without .to('cuda')."
    )


def _network(words: str, function: str, _python: str) -> GputuiError:
    cause = f"{function} needs something from the network, which did not answer: {words.splitlines()[0]}"
    remedy = "Run it once where there is a network, so that it is in a cache or folder here, and try again."
    return GputuiError(cause if cause.endswith(".") else f"{cause}.", remedy)


def _no_ranks(_words: str, function: str, _python: str) -> GputuiError:
    cause = f"{function} joins a job of several ranks, and nothing says of how many."
    return GputuiError(cause, "Say it with --world-size 8; --rank names the one that is rehearsed.")


_ERRORS: dict[str, Callable[[str, str, str], GputuiError]] = {
    "no_torch": _no_torch,
    "no_module": _no_module,
    "no_function": _no_function,
    "wrong_form": _wrong_form,
    "unsupported": _unsupported,
    "failed": _failed,
    "needs_gpu": _needs_gpu,
    "exited": _exited,
    "no_memory": _no_memory,
    "network": _network,
    "no_ranks": _no_ranks,
}


def _line(file: str, line: int) -> CallSite | None:
    """A line of the program; its path starts at site-packages, or at the working folder if the file is below it."""
    if not file:
        return None
    _, _, imported = file.rpartition("/site-packages/")
    if imported != file:
        return CallSite(imported, line, "")
    relative = os.path.relpath(file)
    return CallSite(file if relative.startswith("..") else relative, line, "")


def rehearsal_of(report: dict[str, Any], function: str, python: str) -> Rehearsal:
    """The rehearsal in the report of the process. Raises GputuiError where the report has a problem instead."""
    if "problem" in report:
        raise _ERRORS[report["problem"]](report["words"], function, python)
    return Rehearsal(
        str(report["torch"]),
        array("q", report["events"]),
        array("Q", report["sizes_bytes"]),
        tuple(report["categories"]),
        tuple(report["modules"]),
        bytes(report["element_bytes"]),
        tuple(map(report["operation_names"].__getitem__, report["operations"])),
        tuple(map([_line(*place) for place in report["places"]].__getitem__, report["lines"])),
        tuple((int(event), str(name)) for event, name in report["marks"]),
        int(report["values_read"]),
        {str(name): int(count) for name, count in report["largest_results"].items()},
        array("Q", report["streams"]),
        report.get("steps"),
        bool(report.get("is_uncompiled")),
        tuple(map(str, report.get("without_weights", ()))),
        {str(name): int(value) for name, value in report.get("defaults", {}).items()},
        tuple(map(str, report.get("sent", ()))),
    )
