"""Errors that a person can act on: a cause, a remedy and an exit status, which `gputui.cli.main` alone reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class GputuiError(Exception):
    """A failure that ends a command with one sentence on stderr.

    `remedy` is the sentence that says what to do, "" where nothing can be done. `exit_status` is what the command
    returns to the shell.
    """

    exit_status = 1

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}".rstrip()


class UsageError(GputuiError):
    """Invalid usage or settings: an unknown option, a malformed value, an unknown setting."""

    exit_status = 2


def did_you_mean(typed: str, known: Collection[str], shown: Mapping[str, str] | None = None) -> str:
    """The remedy for an unknown name: the most similar of `known`, written as in `shown`; "" where none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(typed, known, n=1)
    return f"Did you mean {(shown or {}).get(near[0], near[0])}?" if near else ""
