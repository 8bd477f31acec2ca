"""argparse with this program's manners: an error is a `UsageError`, and a wrong option names the right one."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

from gputui.errors import UsageError, did_you_mean
from gputui.output import put
from gputui.settings.table import BY_NAME

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_IN_OUR_WORDS = (
    (re.compile(r"argument (\S+): ignored explicit argument .*"), r"\1 takes no value."),
    (re.compile(r"argument (\S+): expected one argument"), r"\1 needs a value."),
    (re.compile(r"the following arguments are required: (.*)"), r"Missing: \1."),
)
"""What argparse says, and what is said instead."""


class Parser(argparse.ArgumentParser):
    """A parser that never exits for an error, and takes no abbreviated options (a script would break on new ones)."""

    def __init__(self, prog: str, description: str, usage: str | None = None, epilog: str | None = None) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, usage, description, epilog, formatter_class=layout, allow_abbrev=False)

    def option_names(self) -> list[str]:
        """Every option, in both spellings."""
        return [name for action in self._actions for name in action.option_strings]

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The parsed arguments; `UsageError` for one that the parser does not know."""
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            self.refuse(unknown[0])
        return parsed

    def refuse(self, argument: str) -> NoReturn:
        """Raise the `UsageError` for an argument that is not known here."""
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
        """As all output: what cannot be written is said."""
        if file is None:
            put(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """What argparse itself finds wrong, as a `UsageError`."""
        for pattern, words in _IN_OUR_WORDS:
            if pattern.fullmatch(message):
                raise UsageError(pattern.sub(words, message), f"See {self.prog} --help.")
        message = message.removeprefix("argument ")
        cause = f"{message[:1].upper()}{message[1:]}."
        raise UsageError(cause, f"See {self.prog} --help.")


def pid_of(word: str) -> int:
    """The PID that was typed; UsageError for what is none."""
    if word.isdecimal() and 0 < int(word) < 2**31:
        return int(word)
    cause = f"{word!r} is no PID."
    raise UsageError(cause, "`gputui attach` lists the processes that can be attached to.")
