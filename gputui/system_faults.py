"""Sentences for what the system can refuse at any moment: a descriptor, memory, a thread, a file."""

from __future__ import annotations

import errno
import os

from gputui.errors import GputuiError

_REMEDIES = {
    errno.EMFILE: "Close what this shell has open, or raise the limit with `ulimit -n`.",
    errno.ENFILE: "The whole machine has no file descriptor left: end a program that has too many files open.",
    errno.ENOMEM: "Free some memory, or raise the limit with `ulimit -v`.",
    errno.ENOSPC: "Free some room on that file system.",
    errno.EDQUOT: "Free some room: your quota is used up.",
    errno.EIO: "The device below it may be failing: see `dmesg`.",
    errno.EAGAIN: "Raise the limit of processes with `ulimit -u`, or end some.",
}
"""What to do about an error of the system."""

_NO_THREAD = "can't start new thread"
"""Python's message where the system refuses a thread; Python has no exception class for that."""

_NO_EXCEPTION = "error return without exception set"
"""Python's message where a part of it that is written in C gets no memory."""

_CUT_MODULE = "marshal data too short"
"""Python's message for a compiled module (.pyc) that a full disk has cut off."""


def as_sentence(error: BaseException) -> GputuiError | None:
    """A `GputuiError` that says why the system refused; None for an error that is a fault of gputui's own."""
    if isinstance(error, OSError):
        where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
        words = error.strerror or str(error) or type(error).__name__
        remedy = _REMEDIES.get(error.errno or 0, "")
        return GputuiError(f"The system refused what gputui needs: {words}{where}.", remedy)
    if isinstance(error, MemoryError) or (isinstance(error, SystemError) and str(error) == _NO_EXCEPTION):
        return GputuiError("There is not enough memory.", _REMEDIES[errno.ENOMEM])
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return GputuiError("The system refused a new thread.", _REMEDIES[errno.EAGAIN])
    if isinstance(error, ImportError) or (isinstance(error, EOFError) and str(error) == _CUT_MODULE):
        remedy = "If this is not a passing fault of the file system, install gputui again."
        return GputuiError(f"A part of gputui could not be read: {error}.", remedy)
    return None
