"""A rehearsal of a program as it is, which runs until it has taken enough steps."""

from __future__ import annotations

import os
import random
import runpy
import socket
import sys
import threading
import traceback
import urllib.error
from contextlib import ExitStack
from typing import Any, Callable

from .choices import replace
from .following import Following
from .gpu import Gpu
from .host import parameters_without_data
from .of_transformers import ChangedTransformers
from .ranks import Job
from .rehearse import ProblemError, Rehearsal, failed
from .surroundings import answers_for_programs
from .tensors import UnsupportedError

NETWORK_ERRORS = (socket.gaierror, ConnectionError, urllib.error.URLError)
NETWORK_NAMES = frozenset(
    {"ConnectionError", "ConnectError", "ConnectTimeout", "LocalEntryNotFoundError", "OfflineModeIsEnabled"}
)
"""Names of errors of requests, httpx and huggingface_hub."""


def rehearse_program(words: list[str], gpu: Gpu, job: Job, end: Callable[[dict[str, Any]], None]) -> None:
    """Run a program, `train.py ARGUMENT...` or `-m MODULE ARGUMENT...`; `end` gets the report, and does not return.

    The process ends as soon as the steps are taken, so the program cannot react to it.
    """
    random.seed(0)
    rehearsal = Rehearsal(gpu, job)
    changed = ChangedTransformers()
    sys.meta_path.insert(0, changed)

    def enough() -> None:
        report = rehearsal.report(list(rehearsal.requests.events))
        end({**report, "steps": following.steps, "without_weights": changed.made})

    following = Following(rehearsal.requests, enough)
    with ExitStack() as stack:
        stack.enter_context(rehearsal.running())
        stack.enter_context(parameters_without_data())
        stack.enter_context(following.following())
        for owner, name, value in answers_for_programs(rehearsal, lambda error: end(_problem(error))):
            replace(stack, owner, name, value)
        rehearsal.requests.mark("model", "other")
        try:
            _run(words)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            if isinstance(ended.code, str):
                sys.stderr.write(f"{ended.code}\n")
            if status:
                end({"problem": "exited", "words": f"{status}|{following.steps}"})
        except BaseException as error:  # the user's code may raise anything: it is named with its line
            end(_problem(error))
        _join_threads()
        if not rehearsal.requests.sizes_bytes:
            end({"problem": "no_memory", "words": ""})
        enough()


def _run(words: list[str]) -> None:
    is_module = words[0] == "-m"
    sys.argv[:] = words[1:] if is_module else words
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def _join_threads() -> None:
    """Wait for the program's threads, as the interpreter does at the end of a program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _problem(error: BaseException) -> dict[str, Any]:
    """The report of why the program failed; an error of the network is one, whatever was raised because of it."""
    own: BaseException | None = error
    while own is not None:
        if isinstance(own, UnsupportedError):
            return failed(own).report
        if isinstance(own, NETWORK_ERRORS) or type(own).__name__ in NETWORK_NAMES:
            traceback.print_exception(type(error), error, error.__traceback__)
            return ProblemError("network", f"{type(own).__name__}: {own}").report
        own = own.__cause__ or own.__context__
    return failed(error).report
