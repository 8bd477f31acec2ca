"""A rehearsal of a function or of a program, and the report of what it asked for."""

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
"""In the words of PyTorch and of Triton where compiled code asks for the GPU itself."""


PARTS = {
    "model": "the model is made",
    "batch": "the model is there",
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer",
    "step": "running",
}


class PartShown:
    """The part that runs, on the terminal: large models take half a minute."""

    def __init__(self) -> None:
        self._step = 0
        self._show: Callable[[str], None] = getattr(sys.stderr, "show", lambda _words: None)

    def begin(self, name: str) -> None:
        """A part begins."""
        self._step += name in ("forward", "step")
        step = f"step {self._step}: " if self._step else ""
        self._show(f"{step}{PARTS[name]} ...")


class ProblemError(Exception):
    """Why there is no answer, as the report says it."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.report = {"problem": kind, "words": words}


class Rehearsal:
    """Tensors without data, and what is asked for them."""

    def __init__(self, gpu: Gpu, job: Job) -> None:
        self.gpu, self.job = gpu, job
        self.requests = Requests()
        self.mode = DeviceMode(self.requests.see, self.requests.begin, Workspaces(self.requests, gpu).after)
        self.device_asked = DeviceAsked()
        self.is_uncompiled = False
        """Whether the program asked for torch.compile."""

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Have what this thread does on the GPU be done without data."""
        with self.mode, self.device_asked:
            yield

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Have there be a GPU, and the other ranks of a job."""
        import torch._dynamo  # it computes with tensors when it is imported, and kernels import it

        with contextlib.ExitStack() as stack:
            stack.enter_context(as_on_a_gpu(self.requests, self.gpu))
            for owner, name, value in answers_for_ranks(self.job) if torch.distributed.is_available() else ():
                replace(stack, owner, name, value)
            stack.enter_context(self.in_thread())
            yield

    def report(self, events: list[int]) -> dict[str, Any]:
        """What was asked for."""
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
    """Run the steps of what "MODULE:FUNCTION" returns; the report, with a "problem" where they could not be run.

    The function is also called with the sizes of the mesh, where it has arguments of their names, and as `mesh` with
    PyTorch's own.
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
    except Exception as error:  # whatever the user's own code raises is named with its line
        raise failed(error) from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ProblemError("no_function", ", ".join(key for key, value in vars(module).items() if callable(value)))
    return found


def _defaults_of(function: Any) -> dict[str, int]:
    """The numbers that a function takes where it is not told another."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a callable in C says nothing
        return {}
    return {name: taken.default for name, taken in parameters.items() if type(taken.default) is int}


def failed(error: BaseException) -> ProblemError:
    """The user's code failed: the traceback goes to standard error, without gputui's own lines at its beginning."""
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
    """The requests and frees until the last step is done: what goes afterwards is not the program's doing."""
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
