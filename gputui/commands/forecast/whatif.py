"""`gputui whatif`: what a trace would have taken under other settings, with another batch, on another device."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gputui.commands.attach.step import recording_of
from gputui.commands.files.open import format_of
from gputui.commands.forecast import whatif_serving
from gputui.commands.parser import Parser, pid_of
from gputui.commands.printed.whatif import whatif_report
from gputui.commands.progress import progress
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.whatif import whatif_document
from gputui.explain.serving.asked import is_of_server
from gputui.explain.whatif.ahead import recorded_ahead
from gputui.explain.whatif.allocator.settings import DEFAULTS, Device, with_settings
from gputui.explain.whatif.by_hand import batch_label, batch_of, bytes_of
from gputui.explain.whatif.cases import (
    Answer,
    Case,
    answers,
    default_cases,
    largest_of,
    unchanged,
)
from gputui.explain.whatif.changes import BY_NAME, label_of, names_of
from gputui.explain.whatif.replay.recorded import Recorded, devices_of, recorded_from, recorded_of
from gputui.explain.whatif.words import problems_of
from gputui.model.attached.allocator import AllocatorSettings
from gputui.output import narrate, output_width, put, put_document
from gputui.settings import Settings
from gputui.sources.probe import listing
from gputui.sources.probe.one_moment import one_moment
from gputui.sources.rehearsal import Surroundings, name_of_function, rehearse

PIPE_COLUMNS = 80
DESCRIPTION = """Replay a trace of allocations through a model of PyTorch's allocator: what would have been reserved
under other settings, with a change of the program, another batch, or on a smaller device. FILE is a snapshot of
PyTorch's that holds a trace: `gputui step PID -o FILE` writes one. With a PID, a step of that process is recorded.
With --model nothing has to run: FUNCTION returns a model, an optimizer and a batch, and a step of it is taken on
tensors without data, on any machine with PyTorch."""
EPILOG = """FUNCTION takes no arguments and returns one of:
  model, optimizer, batch                  the loss is output.loss, or the sum of the output
  model, optimizer, batch, loss_function   loss_function(output, batch); with a batch of two, the second is the target
  model, batch                             no training: a forward pass under no_grad
  step                                     a function without arguments that takes one step
The model is called with a batch that is a dictionary as model(**batch), with a tuple as model(*batch)."""


SETTINGS_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class _InOrder(argparse.Action):
    """Keeps --set, --with and --batch in the order in which they were given."""

    def __call__(
        self,
        _parser: object,
        namespace: argparse.Namespace,
        value: object,
        option: str | None = None,
    ) -> None:
        namespace.asked = [*(namespace.asked or []), (option, value)]


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Replay a trace from a file, a process or a rehearsal, and print what would have been reserved."""
    parser = Parser(
        prog="gputui whatif",
        usage="gputui whatif FILE|PID [--set NAME:VALUE[,NAME:VALUE]]... [--with CHANGE]..."
        " [--batch NOW:THEN] [--device-memory SIZE] [--json] [--yes]\n"
        "       gputui whatif --model MODULE:FUNCTION [--python PATH] ...",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "file",
        metavar="FILE|PID",
        nargs="?",
        help="a snapshot of PyTorch's with a trace, or a process with the probe loaded",
    )
    parser.add_argument("--model", metavar="MODULE:FUNCTION", help="a training that has not run; see below")
    parser.add_argument(
        "--python", metavar="PATH", help="the Python of that training, if it is not the one in the PATH"
    )
    parser.add_argument(
        "--set",
        action=_InOrder,
        dest="asked",
        metavar="NAME:VALUE",
        help="settings, as in PYTORCH_ALLOC_CONF; of a vLLM its flags, such as max_model_len:131072",
    )
    parser.add_argument(
        "--batch", action=_InOrder, dest="asked", metavar="NOW:THEN", help="the batch recorded, and another one"
    )
    parser.add_argument(
        "--with",
        action=_InOrder,
        dest="asked",
        metavar="CHANGE[,CHANGE]",
        help=f"a change of the program: {', '.join(BY_NAME)}",
    )
    parser.add_argument("--device-memory", metavar="SIZE", help="a device with so much for PyTorch, such as 24GiB")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument("--yes", action="store_true", help="record a step of the process without asking")
    parsed = parser.parse(arguments)
    device_memory = bytes_of(parsed.device_memory) if parsed.device_memory else None
    flags = [value for option, value in parsed.asked or [] if option == "--set" and is_of_server(value)]
    if flags and parsed.file:
        return _of_server(parsed, flags, device_memory)
    asked = _cases(parsed.asked or [], device_memory)
    _check(asked, replace(DEFAULTS, large_page_bytes=0))  # no process is recorded for a misspelled setting
    if (parsed.file is None) == (parsed.model is None):
        cause = "gputui whatif needs one of these: a file, a PID, or --model."
        raise UsageError(cause, "See gputui whatif --help.")
    if parsed.model is not None:
        recorded = _ahead(parsed.model, parsed.python, device_memory)
    else:
        recorded = _recorded(parsed.file, is_sure=parsed.yes)
    _check(asked, recorded.settings)  # a wrong setting is reported before the work
    return _answer(recorded, asked, device_memory, as_json=parsed.json)


def _of_server(parsed: argparse.Namespace, flags: Sequence[str], device_memory: int | None) -> int:
    """What a running inference server would have with other flags."""
    if len(flags) < len(parsed.asked):
        cause = "Flags of a server are tried alone, without settings of PyTorch's allocator and changes of a program."
        raise UsageError(cause, "Give each its own gputui whatif.")
    width, pid = output_width(PIPE_COLUMNS), pid_of(parsed.file)
    return whatif_serving.answer(pid, flags, device_memory, as_json=parsed.json, is_sure=parsed.yes, width=width)


def _check(cases: Sequence[Case], settings: AllocatorSettings) -> None:
    for case in cases:
        with_settings(settings, case.settings)


def _answer(recorded: Recorded, asked: Sequence[Case], device_memory: int | None, *, as_json: bool) -> int:
    cases = asked or [replace(case, device_memory_bytes=device_memory) for case in default_cases(recorded)]
    with progress("Replaying") as show:
        found: list[Answer] = []
        for step in answers(recorded, (unchanged(recorded), *cases)):
            if isinstance(step, Answer):
                found.append(step)
            else:
                show(step)
        largest = largest_of(recorded, cases, lambda: show(1.0))
    baseline, *rest = found
    problems = problems_of(recorded, baseline)
    if as_json:
        put_document(whatif_document(recorded, baseline, rest, largest, problems))
    else:
        put(whatif_report(baseline, rest, largest, problems, output_width(PIPE_COLUMNS)))
    return 0


def _cases(asked: Sequence[tuple[str, str]], device_memory: int | None) -> list[Case]:
    """One case for each --set, --with and --batch in order, then each setting and each change with the batch."""
    cases: list[Case] = []
    for option, value in asked:
        if option == "--set":
            cases.append(Case(value, value, device_memory_bytes=device_memory))
        elif option == "--with":
            names = names_of(value)
            cases.append(Case(label_of(names), device_memory_bytes=device_memory, changes=names))
        else:
            batch = batch_of(value)
            cases.append(Case(batch_label(batch), batch=batch, device_memory_bytes=device_memory))
    batches = [case for case in cases if case.batch]
    settings = [case for case in cases if case.settings or case.changes]
    both = [
        replace(case, label=f"{case.label}, {batch.label}", batch=batch.batch) for batch in batches for case in settings
    ]
    return cases + both


def _recorded(word: str, *, is_sure: bool) -> Recorded:
    """The trace in a file; for a PID, unless a file has that name, a new recording of that process."""
    path = Path(word)
    if word.rpartition(":")[2].isdecimal() and not path.exists():
        return _recorded_in(pid_of(word), is_sure=is_sure)
    moments = list(format_of(path).moments(path))
    if not moments:
        cause = f"{path} holds nothing that can be replayed."
        raise GputuiError(cause)
    return recorded_of(moments[-1])


def _recorded_in(pid: int, *, is_sure: bool) -> Recorded:
    """A new recording of a process, with NVML's sizes of its devices."""
    from gputui.once.run import read_machine

    traces = recording_of(pid, "gputui whatif", is_sure=is_sure)
    with listing.attach(pid) as client:
        moment = one_moment(client, read_machine)
    return recorded_from(traces.traces, traces.look, devices=devices_of(moment))


def _ahead(function: str, python: str | None, device_memory: int | None) -> Recorded:
    """What a step on tensors without data asks for, under the settings of this environment."""
    narrate(f"Two steps of {name_of_function(function)} run on tensors without data. It takes seconds, and no GPU.")
    words = next((os.environ[name] for name in SETTINGS_VARIABLES if os.environ.get(name)), "")
    rehearsal = rehearse(function, surroundings=Surroundings(python))
    return recorded_ahead(rehearsal, with_settings(DEFAULTS, words), Device(device_memory, device_memory))
