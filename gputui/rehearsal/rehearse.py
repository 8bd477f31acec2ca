"""A rehearsal of a function, and the report of its requests, which that of a program shares."""

from __future__ import annotations

import base64
import contextlib
import importlib
import inspect
import os
import sys
import traceback
from typing import Any, Callable, Iterator

import torch
from torch.utils._pytree import tree_map

from .asked import DeviceAsked
from .choices import Workspaces, as_on_a_gpu, replace
from .gpu import Gpu
from .ranks import Job, NoRanksError, answers_for_ranks, arguments_of_mesh
from .requests import Requests
from .tensors import DEVICE, DeviceMode, UnsupportedError
from .training import WrongFormError, modules_followed, move, on_device, take_step, training_of

PACKAGE = os.path.dirname(os.path.abspath(__file__))
NEEDS_GPU = ("NVIDIA driver", "CUDA driver", "CUDA GPUs are available", "CUDA error", "0 active drivers")
"""Words in the errors of PyTorch and Triton where compiled code needs a real GPU."""


PARTS = {
    "model": "the model is made",
    "batch": "the model is there",
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer",
    "step": "running",
}


class PartShown:
    """Shows on the terminal which part of the steps runs: large models take half a minute."""

    def __init__(self) -> None:
        self._step = 0
        self._show: Callable[[str], None] = getattr(sys.stderr, "show", lambda _words: None)

    def begin(self, name: str) -> None:
        """Show the part that begins."""
        self._step += name in ("forward", "step")
        step = f"step {self._step}: " if self._step else ""
        self._show(f"{step}{PARTS[name]} ...")


class ProblemError(Exception):
    """Why there is no answer; `report` is the report that says so."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.report = {"problem": kind, "words": words}


class Rehearsal:
    """Tensors without data on a GPU that is not there, and the requests for them."""

    def __init__(self, gpu: Gpu, job: Job) -> None:
        self.gpu, self.job = gpu, job
        self.requests = Requests()
        self.mode = DeviceMode(self.requests.see, self.requests.begin, Workspaces(self.requests, gpu).after)
        self.device_asked = DeviceAsked()
        self.is_uncompiled = False
        """Whether the program asked for torch.compile."""

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Run what this thread does on the GPU without data, in the body of the `with`."""
        with self.mode, self.device_asked:
            yield

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Pretend that there are a GPU and the other ranks of a job, in the body of the `with`."""
        import torch._dynamo  # it computes with tensors when it is imported, and kernels import it

        with contextlib.ExitStack() as stack:
            stack.enter_context(as_on_a_gpu(self.requests, self.gpu))
            for owner, name, value in answers_for_ranks(self.job) if torch.distributed.is_available() else ():
                replace(stack, owner, name, value)
            stack.enter_context(self.in_thread())
            yield

    def report(self, events: list[int]) -> dict[str, Any]:
        """The report of a rehearsal up to its last event, as `run.py` writes it."""
        requests = self.requests
        return {
            "torch": torch.__version__,
            "events": events,
            "sizes_bytes": requests.sizes_bytes,
            "categories": requests.categories,
            "modules": requests.modules,
            "streams": requests.streams,
            "element_bytes": requests.element_bytes,
            "operations": requests.operations,
            "operation_names": list(requests.operation_names.numbers),
            "lines": requests.lines,
            "places": list(requests.places.numbers),
            "marks": requests.marks,
            "values_read": self.mode.values_read,
            "largest_results": self.mode.largest_results,
            "is_uncompiled": self.is_uncompiled,
            "sent": [base64.b64encode(one).decode() for one in self.job.sent],
        }


def report_of(
    function: str,
    arguments: dict[str, Any],
    steps: int,
    gpu: Gpu = Gpu(),  # noqa: B008 - it does not change
    job: Job | None = None,
) -> dict[str, Any]:
    """The report of the steps of what "MODULE:FUNCTION" returns, with a "problem" where they could not be run.

    The function is called with `arguments` and those of `arguments_of_mesh`.
    """
    try:
        found, job = _function_in(function), job or Job()
        report = _rehearse(lambda: found(**{**arguments_of_mesh(found, job.mesh), **arguments}), steps, gpu, job)
        return {**report, "defaults": _defaults_of(found)}
    except ProblemError as problem:
        return problem.report


def _function_in(words: str) -> Any:
    module_name, _, name = words.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        kind = "no_module" if error.name and module_name.startswith(error.name) else "failed"
        raise ProblemError(kind, str(error)) from None
    except Exception as error:  # the user's code may raise anything: it is named with its line
        raise failed(error) from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ProblemError("no_function", ", ".join(key for key, value in vars(module).items() if callable(value)))
    return found


def _defaults_of(function: Any) -> dict[str, int]:
    """The whole numbers that a function has as defaults of its arguments."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a callable written in C
        return {}
    return {name: taken.default for name, taken in parameters.items() if type(taken.default) is int}


def failed(error: BaseException) -> ProblemError:
    """The problem of an error in the user's code; prints its traceback to standard error, without gputui's lines."""
    lines = traceback.TracebackException.from_exception(error)
    lines.stack[:] = [frame for frame in lines.stack if not frame.filename.startswith(PACKAGE)]
    sys.stderr.write("".join(lines.format()))
    if isinstance(error, NoRanksError):
        return ProblemError("no_ranks", "")
    where = next((frame for frame in reversed(lines.stack) if "/torch/" not in frame.filename), None)
    place = f"{os.path.basename(where.filename)}:{where.lineno}" if where else ""
    if isinstance(error, UnsupportedError):
        return ProblemError("unsupported", f"{error.operation}|{error.reason}|{place}")
    if any(words in str(error) for words in NEEDS_GPU):
        return ProblemError("needs_gpu", f"{place}|{error}")
    return ProblemError("failed", f"{type(error).__name__}: {error}")


def _rehearse(function: Any, steps: int, gpu: Gpu, job: Job) -> dict[str, Any]:
    rehearsal = Rehearsal(gpu, job)
    try:
        with rehearsal.running():
            events = _run(function, steps, rehearsal.requests)
    except WrongFormError as error:
        raise ProblemError("wrong_form", str(error)) from None
    except Exception as error:  # whatever the user's own code raises is named with its line
        raise failed(error) from None
    return rehearsal.report(events)


def _run(function: Any, steps: int, requests: Requests) -> list[int]:
    """The requests and frees up to the end of the last step; those after it are not the program's doing."""
    requests.on_mark = PartShown().begin
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
