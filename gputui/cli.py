"""The command line: a table of commands, and the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from gputui.errors import GputuiError, UsageError, did_you_mean
from gputui.output import close_output, narrate
from gputui.own_descriptors import mute_libraries
from gputui.settings import Settings, load_settings
from gputui.system_faults import as_sentence

INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: the reader of our output has gone (`gputui --once | head -1`)."""

Run = Callable[[list[str], Settings], int]


class Command(NamedTuple):
    """A command: `module`, below `gputui.commands`, has its function `run` and is imported only to run it."""

    name: str
    help: str
    module: str
    needs_settings: bool = True
    becomes_another: bool = False
    """The process of the command becomes another program (exec), which needs standard output and error unchanged."""

    def load(self) -> Run:
        """Import the command's module, and return its function."""
        run: Run = import_module(f"gputui.commands.{self.module}").run
        return run


MONITOR = Command("", "the monitor", "machine.monitor")
COMMANDS = (
    Command("attach", "look inside a running training process", "attach.attach"),
    Command("open", "show what a file holds: a recording, or a snapshot of PyTorch's", "files.open"),
    Command("replay", "another name of open", "files.open"),
    Command("step", "record a step of training, and show who holds the memory at its peak", "attach.step"),
    Command(
        "snapshot", "save a process's memory as a file for PyTorch's viewer", "attach.snapshot", needs_settings=False
    ),
    Command("black-box", "list what was kept of out-of-memory errors", "files.black_box", needs_settings=False),
    Command(
        "whatif",
        "what a trace would have taken under other settings, or with another batch",
        "forecast.whatif",
        needs_settings=False,
    ),
    Command(
        "check", "what a step will need of a GPU, told without one: for CI", "forecast.check", needs_settings=False
    ),
    Command(
        "run", "run a program so that gputui can attach to it", "reach.run", needs_settings=False, becomes_another=True
    ),
    Command("record", "keep days of this machine in a file", "machine.record", needs_settings=False),
    Command("report", "who used the GPUs, and what was wrong", "machine.report", needs_settings=False),
    Command("watch", "wait until something is wrong with this machine", "machine.watch"),
    Command(
        "export",
        "serve a page for Prometheus: GPUs, processes, PyTorch's allocators",
        "nodes.export",
        needs_settings=False,
    ),
    Command("fleet", "the GPUs of many machines, through ssh or from a Prometheus", "nodes.fleet"),
    Command("relay", "not for people: what attach NODE:PID runs on that machine", "reach.relay", needs_settings=False),
    Command("doctor", "check what works on this machine, and how to fix the rest", "doctor", needs_settings=False),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command that `arguments` (default: the program's own) name, and return its exit status."""
    is_whole_program = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    status = _status(arguments, is_whole_program=is_whole_program)
    return status if close_output() else status or 1


def _status(arguments: list[str], *, is_whole_program: bool) -> int:
    """Run the command and return its exit status; an error that ends it is printed as a sentence on standard error."""
    try:
        return _run(arguments, is_whole_program=is_whole_program)
    except GputuiError as error:
        narrate(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except (OSError, MemoryError, SystemError, RuntimeError, ImportError, EOFError) as error:
        refusal = as_sentence(error)
        if refusal is None:
            raise
        narrate(str(refusal))
        return refusal.exit_status


def _run(arguments: list[str], *, is_whole_program: bool) -> int:
    command, rest = _command(arguments)
    if is_whole_program and not command.becomes_another:
        mute_libraries()
    wants_help = rest[:1] in (["--help"], ["-h"], ["--version"])  # must work with a broken settings file too
    settings = load_settings() if command.needs_settings and not wants_help else Settings()
    return command.load()(rest, settings)


def _command(arguments: list[str]) -> tuple[Command, list[str]]:
    """The command that the first word names, and its arguments; the monitor if that word is an option or missing."""
    if not arguments or arguments[0].startswith("-"):
        return MONITOR, arguments
    name, *rest = arguments
    for command in COMMANDS:
        if command.name == name:
            return command, rest
    names = [command.name for command in COMMANDS]
    cause = f"There is no command {name!r}."
    raise UsageError(cause, did_you_mean(name, names) or f"The commands are: {', '.join(names)}. See gputui --help.")
