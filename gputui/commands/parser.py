"""argparse with this program's manners: an error is a `UsageError`, and a wrong option names the right one."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gputui.errors import UsageError
from gputui.wording import did_you_mean


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
        raise UsageError(cause, did_you_mean(name, self.option_names()) or f"See {self.prog} --help.")

    def error(self, message: str) -> NoReturn:
        """What argparse itself finds wrong, as a `UsageError`."""
        message = message.removeprefix("argument ")
        cause = f"{message[:1].upper()}{message[1:]}."
        raise UsageError(cause, f"See {self.prog} --help.")


def pid_of(word: str) -> int:
    """The PID that was typed; UsageError for what is none."""
    if word.isdecimal() and 0 < int(word) < 2**31:
        return int(word)
    cause = f"{word!r} is no PID."
    raise UsageError(cause, "`gputui attach` lists the processes that can be attached to.")
