"""Wraps each entry of the program or the interpreter into the probe: no exception of the probe's own gets out.

Two kinds of exceptions are told apart. One that a signal handler of the program has raised (Ctrl-C, a time limit) goes
on to the program, as it would have without the probe. One of the probe's own ends here: viewers get a sentence about
it, and after the second of the same type from the same line, that part of the probe is switched off. The depth of the
program's recursion and its lack of descriptors or memory pass, and do not count.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` calls the handlers' own `__hash__`
import os
from types import FunctionType, MethodType

from gputui.probe.guards.descriptors import SHORTAGES

TYPE_CHECKING = False  # `typing` and `collections.abc` cost more to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, TypeVar

    Result = TypeVar("Result")

MAX_WORDS = 2000
_MAX_IN_SENTENCE = 300
_NO_ROOM = "the program had no memory left, or was at the limit of its recursion"
_NO_PLACE = "at an unknown line"
_OUR_PACKAGE = "gputui"
_traceback_of = BaseException.__dict__["__traceback__"].__get__


class Part:
    """One part of the probe; `name` begins a sentence about it and is a plural."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._no_room = f"{name} have failed: {_NO_ROOM}."
        self.reset()

    def reset(self) -> None:
        """Forget all failures: at the start, and in a forked child."""
        self.failures = 0
        """How many exceptions of the probe's own have ended in this part."""
        self.problem = ""
        """A sentence about the last exception, "" if there was none."""
        self.words = ""
        """The type and the text of the last exception."""
        self.is_off = False
        """Whether the part has failed twice in the same way."""
        self._kinds: set[tuple[str, str]] = set()
        """The type of each exception so far, and the line of the probe that it came from."""

    def enter(self, function: Callable[..., Result], *arguments: Any) -> Result | None:  # noqa: ANN401
        """What `function` returns; None if an exception of the probe's own has ended it."""
        try:
            return function(*arguments)
        except Exception as error:  # the probe's own are never of another kind
            try:
                is_of_program = is_of_the_program(error) or self.note(error)
            except (MemoryError, RecursionError):  # no memory or recursion is left to note it
                is_of_program = False
                self.failures += 1
                self.words, self.problem = _NO_ROOM, self._no_room
            if is_of_program:
                raise
        return None

    def note(self, error: BaseException) -> bool:
        """Note an exception of the probe's own; returns False, which says in `enter` that it is not the program's."""
        self.failures += 1
        self.words = words_of(error)
        kind = type(error).__name__, _read(_place, error, _NO_PLACE)
        is_shortage = isinstance(error, OSError) and error.errno in SHORTAGES
        passes = is_shortage or isinstance(error, RecursionError)  # the program's depth decides where it is raised
        self.is_off = self.is_off or (kind in self._kinds and not passes)
        self._kinds.add(kind)
        once = f"{self.name} have failed: {self.words[:_MAX_IN_SENTENCE]} ({kind[1]})."
        twice = " It was the second time, so they are switched off for as long as this program runs."
        self.problem = once + twice * self.is_off
        return False


MAIN_THREAD = Part("Looks, counters and actions in the main thread")
OWN_THREAD = Part("Answers to viewers")
BLACK_BOX = Part("Black boxes")
HISTORY = Part("Notes of what the program does while its memory history is on for viewers")
LIFE = Part("The probe's start, end and pauses for a fork")
PARTS = (MAIN_THREAD, OWN_THREAD, BLACK_BOX, HISTORY, LIFE)


def problems() -> list[str]:
    """Sentences for viewers about the parts that have failed."""
    return [part.problem for part in PARTS if part.problem]


def is_of_the_program(error: BaseException) -> bool:
    """Whether an exception was raised by one of the program's signal handlers, and so must be passed on to it."""
    return not isinstance(error, Exception) or _read(_has_passed_a_handler, error, False)


def _read(
    read: Callable[[BaseException], Result],
    error: BaseException,
    otherwise: Result,
) -> Result:
    """What `read` finds in the frames of an error; `otherwise` if an audit hook of the program forbids reading them."""
    try:
        return read(error)
    except (MemoryError, RecursionError):
        raise
    except Exception as second:
        try:
            is_of_program = _has_passed_a_handler(second)
        except Exception:  # noqa: BLE001 (the hook's again)
            is_of_program = False
        if is_of_program:
            raise
        return otherwise


def _has_passed_a_handler(error: BaseException) -> bool:
    handlers = [code for number in _signal.valid_signals() if (code := _code_of(_signal.getsignal(number))) is not None]
    traceback = _traceback_of(error)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if any(code is handler for handler in handlers):
            return True
        traceback = traceback.tb_next
    return False


def _code_of(handler: object) -> CodeType | None:
    """The Python code that a signal handler runs, found without running any of it; None if the handler has none."""
    if type(handler) is MethodType:
        return _code_of(handler.__func__)
    if type(handler) is FunctionType:
        return handler.__code__
    mro = type.__dict__["__mro__"].__get__(type(handler))
    namespaces = map(type.__dict__["__dict__"].__get__, mro)
    own = next((namespace["__call__"] for namespace in namespaces if "__call__" in namespace), None)
    return own.__code__ if type(own) is FunctionType else None


def words_of(error: BaseException) -> str:
    """The type and the text of an exception."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:MAX_WORDS].rstrip(": ")
    except Exception:  # noqa: BLE001 (somebody else's __str__)
        return name


def _place(error: BaseException) -> str:
    """The innermost line of the probe that an exception went through: "search.py:42"."""
    traceback, place = _traceback_of(error), _NO_PLACE
    while traceback is not None:
        frame = traceback.tb_frame
        if str(frame.f_globals.get("__name__")).startswith(_OUR_PACKAGE):
            place = f"{os.path.basename(frame.f_code.co_filename).rstrip('>')}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
