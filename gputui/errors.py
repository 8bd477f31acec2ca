"""Errors that a person can act on: a cause, a remedy and an exit status, which `gputui.cli.main` alone reports."""


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
