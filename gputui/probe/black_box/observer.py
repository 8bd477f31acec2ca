"""The black box: what held the GPU memory when a request for more failed, kept in a file.

PyTorch calls its out-of-memory observer in the thread that asked, before the exception is raised. It is registered
when the program initialises CUDA, as one of the calls that PyTorch queues until then: until an error, nothing else of
this runs. After an error that the observer does not report (`unreported`), the look is taken when it has ended the
program. What goes wrong here is said in the line at the end, and the program never notices: see `boundary`.
"""

from __future__ import annotations

import atexit
import os
import sys

from gputui.probe.guards.boundary import BLACK_BOX, words_of
from gputui.probe.guards.originals import perf_counter, sleep, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gputui.probe.black_box.error_look import ErrorLook
    from gputui.probe.black_box.unreported import MemoryFailure

FIRST, LAST = 3, 3
"""How many first and last errors of a program are kept: a search for the largest batch causes many on purpose."""
SHARE_OF_TIME = 0.1
ALWAYS_S = 2.0
"""How long looks may stop the program in all: so many seconds, and this share of the time since the first error."""
STOP_S = 0.25
"""The longest stop at one error; the file is finished beside the program if it takes longer."""
WAIT_AT_EXIT_S = 10.0
_LOOK_EVERY_S = 0.001
NOTHING_TO_START_WITH = (
    "gputui: the GPU had no memory left for CUDA to start with. Which processes hold it is shown by: gputui\n"
)


class _ImportWatch:
    """Waits for the import of PyTorch as the first of Python's finders, and finds nothing itself."""

    def find_spec(self, _name: str, _path: object = None, _target: object = None) -> None:
        """Called at each first import of a module. After `torch.cuda`, PyTorch imports others of its own."""
        BLACK_BOX.enter(_queue_registration)


class _Recorder:
    """Records the errors of one process; a forked child gets a recorder of its own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.pid = os.getpid()
        self.number = 0
        """How many errors there were so far."""
        self.kept: list[tuple[int, str]] = []
        """The numbers and paths of the files that were written."""
        self.problem = ""
        """Why the last error was not kept."""
        self.has_ended = False
        """Whether `_say_where` has run: it is registered twice."""
        self._is_busy = False
        """Whether a look is being taken. No lock: an exception of a signal handler could leave a lock taken."""
        self._is_writing = False
        """Whether a file is being written."""
        self._first_at = 0.0
        self._spent_s = 0.0

    def record(self, *request: int) -> bool:
        """Look and write, in at most `STOP_S`; a second error meanwhile, of the look or another thread, only counts.

        Returns False, as `UntracedCall` needs it.
        """
        self.number += 1
        number = self.number
        if self._is_busy:
            return False
        try:
            try:
                self._is_busy = True  # no other thread runs since the check: nothing was called
                self._record_in_time(number, request)
            finally:  # an exception of a signal handler may end this after each call
                self._is_busy = False
        finally:
            self._is_busy = False
        return False

    def _record_in_time(self, number: int, request: tuple[int, ...]) -> None:
        began = perf_counter()
        self._first_at = self._first_at or began
        if self._spent_s <= ALWAYS_S + SHARE_OF_TIME * (began - self._first_at):
            self._record(number, request, began)
            self._spent_s += perf_counter() - began

    def finish(self, timeout_s: float) -> bool:
        """Wait until nothing is being written any more; returns whether that is so."""
        ends_at = perf_counter() + timeout_s
        while self._is_writing and perf_counter() < ends_at:
            sleep(_LOOK_EVERY_S)
        return not self._is_writing

    def record_after(self, torch: Any, error: MemoryFailure) -> None:  # noqa: ANN401
        """Look and write after the program's end, in this thread: no other can be started any more."""
        from gputui.probe.black_box.error_look import ErrorLook, request_after

        self.number += 1
        look = ErrorLook(torch, request_after(torch, error.requested_bytes), self.number, error)
        self._write(look, self.number)

    def _record(self, number: int, request: tuple[int, ...], began: float) -> None:
        from gputui.probe.black_box.error_look import ErrorLook, MemoryRequest

        if not self.finish(0.0):
            return  # the last error is still being written
        look = ErrorLook(sys.modules["torch"], MemoryRequest(*request), number)
        try:
            self._is_writing = True
            start_new_thread(BLACK_BOX.enter, (self._write, look, number))
        except RuntimeError:  # no more threads
            self._write(look, number)
        except BaseException:  # one of a signal handler, which goes on to the program
            self._is_writing = False
            raise
        self.finish(max(0.0, began + STOP_S - perf_counter()))

    def _write(self, look: ErrorLook, number: int) -> None:
        try:
            from gputui.probe.black_box import files

            path = files.write(self.folder, _program(), number, look.messages())
            self.kept.append((number, path))
            self.problem = ""
            while len(self.kept) > FIRST + LAST:
                files.remove(self.kept.pop(FIRST)[1])
        except Exception as error:  # noqa: BLE001 (the program's error goes its way)
            self.problem = words_of(error)
        finally:
            self._is_writing = False


_recorder: _Recorder | None = None
_watch = _ImportWatch()
_queued_in: object = None
"""The `torch.cuda` whose queue has our call."""


def arm(folder: str) -> None:
    """Keep the out-of-memory errors of this process in `folder`, from the moment when it initialises CUDA."""
    global _recorder  # noqa: PLW0603 (there is one in a process)
    if _recorder is None:
        _recorder = _Recorder(folder)
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
        atexit.register(BLACK_BOX.enter, _say_where)
        sys.meta_path.insert(0, _watch)
        _queue_registration()


def _queue_registration() -> None:
    """Have PyTorch call `_register` when it initialises CUDA, which is now if it has already done so."""
    global _queued_in  # noqa: PLW0603
    cuda = sys.modules.get("torch.cuda")
    call_later = getattr(cuda, "_lazy_call", None)
    if call_later is not None and _queued_in is not cuda:
        _queued_in = cuda
        call_later(_register)


def _register() -> None:
    BLACK_BOX.enter(_attach)


def _attach() -> None:
    if _watch in sys.meta_path:  # not in `find_spec`, while Python goes through the list
        sys.meta_path.remove(_watch)
    torch: Any = sys.modules.get("torch")
    # All that an error needs is imported now: at the error, there may be no descriptor left to read a module with.
    from gputui.probe.allocator.memory_history import memory_history
    from gputui.probe.black_box import ended_threads, error_look, files, unreported  # noqa: F401
    from gputui.probe.main_thread import untraced  # noqa: F401
    from gputui.probe.main_thread.pending_call import keep_from_compiling

    atexit.register(BLACK_BOX.enter, _say_where)  # runs before functions registered earlier, which may free tensors
    keep_from_compiling(_observe, is_early=True)  # type: ignore[arg-type]
    torch._C._cuda_attach_out_of_memory_observer(_observe)
    memory_history.keep_trace_if_asked(torch)


def _observe(device: int, requested_bytes: int, limit_bytes: int, free_bytes: int) -> None:
    """PyTorch's out-of-memory observer. An exception raised here would take the place of the program's error."""
    BLACK_BOX.enter(_record, device, requested_bytes, limit_bytes, free_bytes)


def _record(*request: int) -> None:
    recorder = _recorder
    if recorder is None or recorder.pid != os.getpid() or BLACK_BOX.is_off:
        return
    try:
        from gputui.probe.black_box import ended_threads
        from gputui.probe.main_thread.untraced import UntracedCall

        bool(UntracedCall(lambda: recorder.record(*request)))
        ended_threads.watch(_thread_has_ended)
    except BaseException as error:  # also one of a signal handler, which goes on to the program
        recorder.problem = words_of(error)
        raise


def _before_fork() -> None:
    BLACK_BOX.enter(_finish)


def _finish() -> None:
    if _recorder is not None:
        _recorder.finish(STOP_S)


def _after_fork_in_child() -> None:
    BLACK_BOX.enter(_begin_anew)


def _begin_anew() -> None:
    global _recorder  # noqa: PLW0603
    if _recorder is not None:
        _recorder = _Recorder(_recorder.folder)


def _say_where() -> None:
    """At exit: if an out-of-memory error ends the program, one line after the traceback names the file.

    It is registered twice, and acts the first time that it is called.
    """
    recorder = _recorder
    if recorder is None or recorder.has_ended or recorder.pid != os.getpid() or hasattr(sys, "ps1"):
        return
    recorder.has_ended = True
    error: Any = getattr(sys, "last_value", None)
    recorder.finish(WAIT_AT_EXIT_S)
    if not issubclass(type(error), Exception):
        return  # after Ctrl-C, too: an import may call `eval`, after which Python no longer ends by that signal
    _say(_line_for(recorder, error))


def _thread_has_ended(error: BaseException) -> Callable[[], None] | None:
    """What to call after the traceback of an exception that ends a thread; None unless memory ran out."""
    from gputui.probe.black_box.unreported import is_out_of_memory

    recorder = _recorder
    if recorder is None or recorder.pid != os.getpid() or not is_out_of_memory(error):
        return None
    words = words_of(error)

    def say() -> None:
        recorder.finish(WAIT_AT_EXIT_S)
        _say(_last_line(recorder, words, is_exit=False))

    return say


def _say(line: str) -> None:
    if line:
        sys.stderr.write(line)
        sys.stderr.flush()


def _line_for(recorder: _Recorder, error: BaseException) -> str:
    """The line at the end of a program, "" for other errors. After an error that was not reported, it looks now."""
    from gputui.probe.black_box.unreported import CUDA, is_out_of_memory, memory_error_in
    from gputui.probe.main_thread import process

    if recorder.number > 0 and is_out_of_memory(error):
        return _last_line(recorder, words_of(error), is_exit=True)
    torch = process.loaded_torch()
    failure = None if torch is None else memory_error_in(error)
    if failure is None:
        return ""
    if not process.has_cuda(torch):
        return NOTHING_TO_START_WITH if failure.asked == CUDA else ""
    try:
        recorder.record_after(torch, failure)
    except Exception as problem:  # noqa: BLE001 (the last line says why)
        recorder.problem = words_of(problem)
        if failure.asked == CUDA and memory_error_in(problem) is not None:
            return NOTHING_TO_START_WITH
    return _last_line(recorder, words_of(error), is_exit=True)


def _last_line(recorder: _Recorder, words: str, *, is_exit: bool) -> str:
    if not recorder.kept:
        problem = (recorder.problem or BLACK_BOX.words).partition("\n")[0] or "unknown"
        return f"gputui: what held the GPU memory could not be kept: {problem.rstrip('.')}.\n"
    from shlex import quote

    from gputui.probe.black_box import files

    number, path = recorder.kept[-1]
    at = "" if number == recorder.number else " at an earlier error of this program"
    if not at:
        files.append(path, {"type": "ended", "is_exit": is_exit, "error": words})
    return f"gputui: what held the GPU memory{at} was kept. To see it: gputui open {quote(path)}\n"


def _program() -> str:
    """The script's name without its folder; the module's or package's name for `python -m`."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    folder, name = os.path.split(script)
    return os.path.basename(folder) if name == "__main__.py" else os.path.splitext(name)[0]
