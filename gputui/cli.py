"""The command line: commands as a table, and the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from gputui.errors import GputuiError, UsageError, did_you_mean
from gputui.output import narrate
from gputui.settings import Settings, load_settings

INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read our output has gone (`gputui --once | head -1`)."""

Run = Callable[[list[str], Settings], int]


class Command(NamedTuple):
    """`loader` is "module:function" of a `Run`, imported only when the command is run."""

    name: str
    help: str
    loader: str
    needs_settings: bool = True

    def load(self) -> Run:
        """The function behind the command."""
        module, function = self.loader.split(":")
        run: Run = getattr(import_module(module), function)
        return run


MONITOR = Command("", "the monitor", "gputui.commands.monitor:run")
COMMANDS = (
    Command("attach", "look inside a training process", "gputui.commands.attach:run"),
    Command("replay", "look again at what was recorded while attached", "gputui.commands.replay:run"),
    Command(
        "snapshot",
        "a process's memory as a file for PyTorch's viewer",
        "gputui.commands.snapshot:run",
        needs_settings=False,
    ),
    Command("run", "a program with the probe loaded, to attach to", "gputui.commands.run:run", needs_settings=False),
    Command(
        "doctor", "what works here, what does not, and the remedy", "gputui.commands.doctor:run", needs_settings=False
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command that `arguments` (default: the program's own) name, and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(arguments)
    except GputuiError as error:
        narrate(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE


def _run(arguments: list[str]) -> int:
    command, rest = _command(arguments)
    asks_first = rest[:1] in (["--help"], ["-h"], ["--version"])  # answered whatever the settings file says
    settings = load_settings() if command.needs_settings and not asks_first else Settings()
    return command.load()(rest, settings)


def _command(arguments: list[str]) -> tuple[Command, list[str]]:
    """The command meant and its own arguments: a command is the first word, or there is none."""
    if not arguments or arguments[0].startswith("-"):
        return MONITOR, arguments
    name, *rest = arguments
    for command in COMMANDS:
        if command.name == name:
            return command, rest
    names = [command.name for command in COMMANDS]
    cause = f"There is no command {name!r}."
    raise UsageError(cause, did_you_mean(name, names) or f"There are: {', '.join(names)}. See gputui --help.")
