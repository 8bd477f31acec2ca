"""Raises an exception at one line of the probe: a fault of the probe's own, or a signal whose handler raises."""

import signal


class OwnError(Exception):
    """Stands for a fault of the probe."""


class ProgramError(Exception):
    """Raised by the program's signal handler."""


def _file_of(code):
    """The name of the file: the probe's own code says "<gputui/probe/search/search.py>"."""
    return code.co_filename.rpartition("/")[2].rstrip(">")


def handler(_number, _frame):
    raise ProgramError


signal.signal(signal.SIGUSR1, handler)
OWN = (OwnError, MemoryError, RecursionError, RuntimeError)


class Injector:
    """A tracer that notes the lines of the probe, and raises at one of them, the first time that it is reached.

    `outside` is the boundary, and what enters it in one line: these functions raise nothing by themselves.
    """

    def __init__(self, *outside):
        self._outside = {function.__code__ for function in outside}
        self.reached = {}
        """Lines of the probe, each with what was going on when it was first reached."""
        self.doing = ""
        self.is_noting = True
        self.line = None
        self.error = None
        self.has_raised = False

    def arm(self, line, error):
        self.line, self.error, self.has_raised = line, error, False

    @property
    def is_wanted(self):
        """Whether there is something to do for it: tracing takes much longer than a look."""
        return self.is_noting or (self.line is not None and not self.has_raised)

    def __call__(self, frame, _event, _argument):
        code = frame.f_code
        if not str(frame.f_globals.get("__name__")).startswith("gputui.probe") or code in self._outside:
            return None
        if self.is_noting:
            return self._trace
        file, number = self.line or ("", 0)
        is_there = _file_of(code) == file and any(number == line for _, _, line in code.co_lines())
        return self._trace if is_there and not self.has_raised else None

    def _trace(self, frame, event, _argument):
        if event == "line" and frame.f_code.co_filename != "<string>":  # the code of named tuples
            line = _file_of(frame.f_code), frame.f_lineno
            self.reached.setdefault(line, self.doing)
            if line == self.line and not self.has_raised:
                self.has_raised = True
                if self.error is ProgramError:
                    signal.raise_signal(signal.SIGUSR1)
                else:
                    raise self.error
        return self._trace


def is_interrupted(do):
    """Whether an exception of the program's signal handler has ended a step of the program."""
    try:
        do()
    except ProgramError:
        return True
    return False
