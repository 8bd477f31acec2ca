"""argparse, adapted: an error is a `UsageError`, and an unknown option suggests the right one."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, NoReturn

from gputui.errors import UsageError, did_you_mean
from gputui.output import put
from gputui.settings.table import BY_NAME

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_REWORDED = (
    (re.compile(r"argument (\S+): ignored explicit argument .*"), r"\1 takes no value."),
    (re.compile(r"argument (\S+): expected one argument"), r"\1 needs a value."),
    (re.compile(r"the following arguments are required: (.*)"), r"Missing: \1."),
)
"""argparse's messages, and ours in their place."""


class Parser(argparse.ArgumentParser):
    """A parser that does not exit on an error, nor take abbreviated options, which a new option can make ambiguous."""

    def __init__(self, prog: str, description: str, usage: str | None = None, epilog: str | None = None) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, usage, description, epilog, formatter_class=layout, allow_abbrev=False)

    def option_names(self) -> list[str]:
        """Every option, in its short and its long form."""
        return [name for action in self._actions for name in action.option_strings]

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The parsed arguments. Raises `UsageError` for one that the parser does not know."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            self.refuse(unknown[0])
        return parsed

    def refuse(self, argument: str) -> NoReturn:
        """Raise the `UsageError` for an unknown argument."""
        name = argument.split("=", 1)[0]
        if not name.startswith("-"):
            cause = f"{self.prog} takes no argument {argument!r}."
            raise UsageError(cause, f"See {self.prog} --help.")
        cause = f"There is no option {name}."
        setting = BY_NAME.get(name.strip("-").replace("-", "_"))
        if setting is not None and setting.flag is None:
            raise UsageError(cause, f"It is a setting: {setting.name} in the settings file, or {setting.variable}.")
        bare = {option.lstrip("-"): option for option in self.option_names()}
        near = did_you_mean(name.lstrip("-"), bare, shown=bare)
        raise UsageError(cause, near or f"See {self.prog} --help.")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help like all output, so that a failure to write it is reported."""
        if file is None:
            put(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Raise argparse's own error as a `UsageError`."""
        for pattern, words in _REWORDED:
            if pattern.fullmatch(message):
                raise UsageError(pattern.sub(words, message), f"See {self.prog} --help.")
        message = message.removeprefix("argument ")
        cause = f"{message[:1].upper()}{message[1:]}."
        raise UsageError(cause, f"See {self.prog} --help.")


def pid_of(word: str) -> int:
    """`word` as a PID of this machine. Raises `UsageError` where it is not one."""
    if word.isdecimal() and 0 < int(word) < 2**31:
        return int(word)
    node, _, there = word.rpartition(":")
    if node and there.isdecimal():
        cause = f"{word!r} is on another machine, and only `gputui attach` goes there."
        raise UsageError(cause, f"Use its screens, or run this command there: ssh -t {shlex.quote(node)} gputui ...")
    cause = f"{word!r} is not a PID."
    raise UsageError(cause, "`gputui attach` lists the processes you can attach to.")


def duration_of(option: str, word: str) -> float:
    """`word` in seconds. Raises `UsageError`, which names `option`, where it is no duration."""
    from gputui.settings.forms import WrongValueError, duration

    try:
        return duration(word)
    except WrongValueError as error:
        cause = f"{option} should be {error.expected}."
        raise UsageError(cause) from None
