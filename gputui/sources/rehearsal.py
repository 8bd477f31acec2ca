"""A step of training on tensors without data, run in the user's Python."""

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
from typing import Any

from gputui.errors import GputuiError, UsageError, did_you_mean
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.trace import Rehearsal
from gputui.own_descriptors import of_child

_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rehearsal", "run.py")
FORMS = "model, optimizer, batch; with a loss function behind them; model, batch; or a function that takes one step"
"""What the user's function may return, in a sentence."""


def default_python() -> str:
    """The user's Python: of the active virtual environment, or else in the PATH, or else the one that runs gputui."""
    environment = os.environ.get("VIRTUAL_ENV")
    if environment and os.access(os.path.join(environment, "bin", "python"), os.X_OK):
        return os.path.join(environment, "bin", "python")
    return shutil.which("python") or shutil.which("python3") or sys.executable


def rehearse(
    function: str,
    python: str | None = None,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    paths: Sequence[str] = (),
) -> Rehearsal:
    """What a step of the training that "MODULE:FUNCTION" returns asks for. Raises GputuiError with the reason.

    The function is called with the arguments by name; they must be values that JSON has. `paths` are folders in which
    its module is looked for beside the working folder.
    """
    module, _, name = function.partition(":")
    if not (module and name.isidentifier()):
        cause = f"{function!r} names no function."
        raise UsageError(cause, "Write MODULE:FUNCTION, such as train:setup for the function setup in train.py.")
    chosen = python or default_python()
    with TemporaryDirectory(prefix="gputui-") as folder:
        path = os.path.join(folder, "report.json")
        status = _run([chosen, _PROGRAM, function, path, json.dumps(dict(arguments), default=str)], chosen, paths)
        try:
            with open(path, "rb") as file:
                report = json.load(file)
        except (OSError, ValueError):
            cause = f"{chosen} ended with exit status {status} before the step was done."
            raise GputuiError(cause, "What it wrote is above.") from None
    return rehearsal_of(report, function, chosen)


def _run(command: list[str], python: str, paths: Sequence[str]) -> int:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if paths else None
    outputs = of_child(sys.stdout), of_child(sys.stderr)
    try:
        return subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=outputs[0], stderr=outputs[1], env=variables
        ).returncode
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
    cause = f"{function} failed on tensors without data: {words.splitlines()[0] if words else 'no reason given'}"
    return GputuiError(cause if cause.endswith(".") else f"{cause}.", "Its traceback is above.")


_ERRORS: dict[str, Callable[[str, str, str], GputuiError]] = {
    "no_torch": _no_torch,
    "no_module": _no_module,
    "no_function": _no_function,
    "wrong_form": _wrong_form,
    "unsupported": _unsupported,
    "failed": _failed,
}


def _line(file: str, line: int) -> CallSite | None:
    """A line of the program; its file relative to the working folder where it lies below it."""
    if not file:
        return None
    relative = os.path.relpath(file)
    return CallSite(file if relative.startswith("..") else relative, line, "")


def rehearsal_of(report: dict[str, Any], function: str, python: str) -> Rehearsal:
    """What a report says. Raises GputuiError where it says that there is none."""
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
    )
