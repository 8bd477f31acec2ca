"""The steps, and the report of what they asked for."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .choices import Workspaces, as_on_a_gpu
from .requests import Requests
from .tensors import DEVICE, DeviceMode, UnsupportedError
from .training import WrongFormError, modules_followed, move, on_device, take_step, training_of

PACKAGE = os.path.dirname(os.path.abspath(__file__))


class _ProblemError(Exception):
    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.report = {"problem": kind, "words": words}


def report_of(function: str, arguments: dict[str, Any], steps: int) -> dict[str, Any]:
    """Run the steps of what "MODULE:FUNCTION" returns; the report, with a "problem" where they could not be run."""
    try:
        return _rehearse(partial(_function_in(function), **arguments), steps)
    except _ProblemError as problem:
        return problem.report


def _function_in(words: str) -> Any:
    module_name, _, name = words.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        kind = "no_module" if error.name and module_name.startswith(error.name) else "failed"
        raise _ProblemError(kind, str(error)) from None
    except Exception as error:  # whatever the user's own code raises is named with its line
        raise _failed(error) from None
    found = getattr(module, name, None)
    if not callable(found):
        raise _ProblemError("no_function", ", ".join(key for key, value in vars(module).items() if callable(value)))
    return found


def _failed(error: BaseException) -> _ProblemError:
    """The user's code failed: the traceback goes to standard error, without gputui's own lines at its beginning."""
    lines = traceback.TracebackException.from_exception(error)
    lines.stack[:] = [frame for frame in lines.stack if not frame.filename.startswith(PACKAGE)]
    sys.stderr.write("".join(lines.format()))
    if isinstance(error, UnsupportedError):
        where = next((frame for frame in reversed(lines.stack) if "/torch/" not in frame.filename), None)
        place = f"{os.path.basename(where.filename)}:{where.lineno}" if where else ""
        return _ProblemError("unsupported", f"{error.operation}|{error.reason}|{place}")
    return _ProblemError("failed", f"{type(error).__name__}: {error}")


def _rehearse(function: Any, steps: int) -> dict[str, Any]:
    requests = Requests()
    workspaces = Workspaces(requests)
    mode = DeviceMode(requests.see, requests.begin, workspaces.after)
    try:
        with as_on_a_gpu(), mode:
            events = _run(function, steps, requests)
    except WrongFormError as error:
        raise _ProblemError("wrong_form", str(error)) from None
    except Exception as error:  # whatever the user's own code raises is named with its line
        raise _failed(error) from None
    return {
        "torch": torch.__version__,
        "events": events,
        "sizes_bytes": requests.sizes_bytes,
        "categories": requests.categories,
        "modules": requests.modules,
        "element_bytes": requests.element_bytes,
        "operations": requests.operations,
        "operation_names": list(requests.operation_names.numbers),
        "lines": requests.lines,
        "places": list(requests.places.numbers),
        "marks": requests.marks,
        "values_read": mode.values_read,
        "largest_results": mode.largest_results,
    }


def _run(function: Any, steps: int, requests: Requests) -> list[int]:
    """The requests and frees until the last step is done: what goes afterwards is not the program's doing."""
    requests.mark("model", "other")
    with torch.device(DEVICE):
        training = training_of(function())
    if training.step is None:
        move(training.model)
        _name_model(training.model, requests)
    requests.mark("batch", "batch")
    batch = on_device(training.batch)
    tree_map(lambda leaf: requests.name(leaf, "batch"), batch)
    training = training._replace(batch=None)
    with modules_followed(training.model, requests):
        for _ in range(steps):
            take_step(training, batch, requests)
    return list(requests.events)


def _name_model(model: Any, requests: Requests) -> None:
    for path, parameter in model.named_parameters():
        requests.name(parameter, "parameter", path.rpartition(".")[0])
    for path, buffer in model.named_buffers():
        requests.name(buffer, "buffer", path.rpartition(".")[0])
