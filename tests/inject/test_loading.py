"""The probe is put into real programs, which then do what they would have done without it."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.inject.loading import PendingCall, Phase
from gputui.inject.process.images import mappings
from gputui.protocol import places
from gputui.sources.probe import listing, loading, main_thread_place
from gputui.sources.probe.main_thread_place import place_of_main_thread, wait_of_main_thread
from tests.attach.children import Child, Python, wait_until
from tests.hanging import NOT_WITHIN_S
from tests.inject import situations
from tests.scale import SCALE, some

ALL = [*situations.ENDLESS, *situations.LIMITED]
STORMS = [name for name in ALL if name.startswith("forking")]
SEED = 16
BOOTSTRAP = Path(main_thread_place.__file__).parents[2] / "inject" / "ways" / "bootstrap.py"


def cycle(child: Child) -> None:
    """Attach, look, and end the probe."""
    loading.put_probe_in(child.pid, lambda _sentence: None)
    with listing.attach(child.pid) as client:
        client.look()
        client.end_probe()
    wait_until(lambda: not traces(child.pid), "the end of the probe")


def traces(pid: int) -> list[str]:
    """What a probe or its way in leaves of itself in a process's memory map and threads."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in maps if re.search(r" r-xp 00000000 00:00 0 *$", line)]


def ended_undisturbed(child: Child) -> None:
    """Let the program end, and check that it has noticed nothing."""
    child.say("end")
    assert child.expect("") == "end"
    assert (child.ended(), child.errors) == (3, "")


@pytest.mark.parametrize("situation", [name for name in ALL if name not in STORMS])
@pytest.mark.long
def test_a_program_does_not_notice_that_a_probe_comes_and_goes(python: Python, situation: str) -> None:
    child = python.start(situations.source(situation))
    child.expect("ready")
    chance = random.Random(SEED)
    for _ in range(2 * SCALE):
        time.sleep(chance.uniform(0, 0.05))  # at any moment of the program
        cycle(child)
    ended_undisturbed(child)


@pytest.mark.long
@pytest.mark.parametrize("situation", STORMS)
def test_a_probe_answers_and_ends_in_a_program_that_forks_all_the_time(python: Python, situation: str) -> None:
    for _ in range(2 * SCALE):  # a new program each time: its children hang if one of its imports is interrupted
        child = python.start(situations.source(situation))
        child.expect("ready")
        for _ in range(2):
            cycle(child)
        ended_undisturbed(child)


def test_the_modules_of_the_first_attach_are_found_again(python: Python) -> None:
    child = python.start(
        """
        import sys
        print("ready", flush=True)
        while sys.stdin.readline() != "end\\n":
            names = [type(finder).__name__ for finder in sys.meta_path]
            print("finders", names.count("GputuiImporter"), "gputui.probe" in sys.modules, flush=True)
        """
    )
    child.expect("ready")
    for _ in range(2):
        cycle(child)
        child.say("more")
        assert child.expect("finders") == "1 True"
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


def test_a_probe_that_is_asked_for_while_the_last_one_ends_is_a_new_one(python: Python) -> None:
    child = python.start(
        """
        import sys, time
        from gputui.probe import lifecycle
        give_up = lifecycle._give_up
        def give_up_late(reason):
            time.sleep(0.2)
            give_up(reason)
        lifecycle._give_up = give_up_late
        lifecycle.start()
        lifecycle.leave_when_alone(600)
        print("ready", flush=True)
        sys.stdin.readline()
        lifecycle.start()
        print("started", flush=True)
        sys.stdin.readline()
        """
    )
    child.expect("ready")
    with child.attach() as client:
        client.end_probe()
    child.say("again")
    child.expect("started")
    with child.attach() as client:
        client.look()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


def test_a_withdrawn_probe_never_starts(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_is_kept_in_lock", lambda _pid: False)
    child = python.start(situations.source("waiting for a lock"))
    child.expect("ready")
    with pytest.raises(loading.CannotLoadError, match="did not load the probe within 0 s"):
        loading.put_probe_in(child.pid, lambda _sentence: None, limit_s=NOT_WITHIN_S)
    wait_until(lambda: not traces(child.pid), "the return of the main thread")
    with pytest.raises(listing.NoProbeError):
        listing.attach(child.pid)
    ended_undisturbed(child)


def test_memory_that_the_program_maps_where_the_probe_came_in_is_not_taken_for_it(python: Python) -> None:
    child = python.start(
        """
        import ctypes, sys
        MAP_PRIVATE, MAP_FIXED_NOREPLACE, MAP_ANONYMOUS = 0x2, 0x100000, 0x20
        library = ctypes.CDLL(None)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        print("ready", flush=True)
        at = int(sys.stdin.readline())
        flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
        memory = library.mmap(at, 0x10000, 3, flags, -1, 0)
        words = (ctypes.c_uint64 * 0x2000).from_address(memory)
        words[:] = [1] * len(words)  # as a probe that is queued
        print("mapped", memory == at, flush=True)
        sys.stdin.readline()
        print("changed", set(words) != {1}, flush=True)
        """
    )
    child.expect("ready")
    under_way = loading.load(loading.check(child.pid), is_asleep=True)
    assert isinstance(under_way, PendingCall)
    wait_until(lambda: not traces(child.pid), "the end of the way in")
    child.say(str(under_way.region))
    assert child.expect("mapped") == "True"
    assert under_way.progress().phase is Phase.LOADED
    under_way.withdraw()
    with child.attach() as client:
        client.look()
    child.say("end")
    assert child.expect("changed") == "False"
    assert (child.ended(), child.errors) == (0, "")


@pytest.mark.parametrize(
    ("variables", "hint"),
    [({}, ""), ({"RANK": "1", "WORLD_SIZE": "2"}, r" If its job stands still, .*: gputui attach \d+ --behind")],
    ids=["alone", "a rank"],
)
def test_the_place_of_a_main_thread_that_does_not_come_back_is_named(
    python: Python, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], hint: str
) -> None:
    monkeypatch.setattr(loading, "_SAY_AFTER_S", 0.0)
    child = python.start(
        """
        import ctypes, subprocess
        child = subprocess.Popen(["sleep", "1000"])
        print("ready", child.pid, flush=True)
        ctypes.PyDLL(None).waitpid(child.pid, None, 0)
        input()
        """,
        **variables,
    )
    waited_for = int(child.expect("ready"))
    wait_until(lambda: "wait" in Path(f"/proc/{child.pid}/wchan").read_text(), "the wait for the child")
    sentences: list[str] = []

    def tell(sentence: str) -> None:
        sentences.append(sentence)
        with suppress(ProcessLookupError):
            os.kill(waited_for, signal.SIGKILL)

    loading.put_probe_in(child.pid, tell)
    waits = r"Its main thread waits for a child process to end \(wait4\), called from (libffi|_ctypes)\S*, "
    assert re.search(waits + rf"at .+:\d in <module>\.{hint}$", sentences[0]), sentences
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


LOCKS = {
    "an event": "threading.Event().wait()",
    "another thread": "reader.join()",
    "a queue, with a time limit": "queue.Queue().get(timeout=9999)",
}


@pytest.mark.parametrize("wait", LOCKS.values(), ids=LOCKS)
def test_the_probe_starts_past_a_main_thread_that_waits_for_a_lock(python: Python, wait: str) -> None:
    child = python.start(
        f"""
        import queue, signal, sys, threading
        def end(number, frame):
            print("threads", threading.active_count(), flush=True)
            sys.exit(3)
        signal.signal(signal.SIGTERM, end)
        reader = threading.Thread(target=sys.stdin.readline, daemon=True)
        reader.start()
        print("ready", flush=True)
        {wait}
        """
    )
    child.expect("ready")
    for _ in range(2):
        loading.put_probe_in(child.pid, lambda _sentence: None)
        with child.attach() as client:
            client.look()
            client.end_probe()
    os.kill(child.pid, signal.SIGTERM)
    assert child.expect("threads") == "2"
    assert (child.ended(), child.errors) == (3, "")


def test_a_computing_main_thread_is_placed_where_it_was_stopped(python: Python) -> None:
    child = python.start(situations.source("computing"))
    child.expect("ready")
    wait_until(lambda: re.search(r", at .+:\d+ in", place_of_main_thread(child.pid, 0)), "a line that could be read")
    libraries = ("/math.", "/libexpat.")  # Python 3.14 of Debian has `math` built in, and loads the other
    loaded = [mapping for mapping in mappings(child.pid) if "x" in mapping.permissions]
    code = next(mapping for mapping in loaded if any(name in mapping.path for name in libraries))
    words = rf"Its main thread is computing(, at .+:\d+ in \S+)?, and was in {re.escape(Path(code.path).name)} when"
    assert re.match(words, place_of_main_thread(child.pid, code.start))
    ended_undisturbed(child)


LINES = """
import threading
import time

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


class Loader:
    def next_batch(self):
        # A comment, and a statement of several lines
        values = [
            1,
            2,
        ]
        if values and \\
           values[0]:
            self.lock.acquire()

    def __init__(self):
        self.lock = threading.Lock()
        self.lock.acquire()
        print("ready", flush=True)


Loader().next_batch()
"""


def test_the_line_of_a_waiting_main_thread_is_named(python: Python, tmp_path: Path) -> None:
    (tmp_path / "load.py").write_text(LINES)
    child = python.run([python.path, str(tmp_path / "load.py")])
    child.expect("ready")
    line = LINES.splitlines().index("            self.lock.acquire()") + 1
    words = f"at load.py:{line} in next_batch."
    wait_until(lambda: place_of_main_thread(child.pid, 0).endswith(words), words)


SHORT_STACKS = 24


def test_the_line_is_named_however_short_the_stack_is(python: Python, tmp_path: Path) -> None:
    """Linux puts the stack's end at random: about one of seven programs without variables has less than 4 KiB of it."""
    (tmp_path / "load.py").write_text(LINES)
    command = ["env", "-i", python.path, str(tmp_path / "load.py")]
    children = [python.run(command) for _ in range(SHORT_STACKS)]
    for child in children:
        child.expect("ready")
        wait_until(lambda: place_of_main_thread(child.pid, 0).endswith(" in next_batch."), "the line")  # noqa: B023


LOCKED = "import threading; print('ready', flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()"


def test_what_an_earlier_call_left_on_the_stack_does_not_hide_a_wait_for_a_lock(
    torch_python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = torch_python.start(LOCKED)
    child.expect("ready")
    wait_until(lambda: wait_of_main_thread(child.pid) is not None, "a wait for the lock")
    monkeypatch.setattr(main_thread_place, "_first_library", lambda _addresses, _code: "libtorch_cpu.so")
    found = wait_of_main_thread(child.pid)
    assert found is not None
    assert found.is_for_lock
    assert "libtorch" not in place_of_main_thread(child.pid, 0)


def test_a_program_that_ends_at_that_moment_ends_as_ever(python: Python) -> None:
    chance = random.Random(SEED)
    for _ in range(6):
        child = python.start(
            "import sys, time; print('ready', flush=True); time.sleep(float(sys.argv[1])); sys.exit(5)",
            str(chance.uniform(0, 0.3)),
        )
        child.expect("ready")
        with suppress(GputuiError):
            loading.put_probe_in(child.pid, lambda _sentence: None)
        assert (child.ended(), child.errors) == (5, "")


IN_C = "print('ready', flush=True); sum(range(10**12))"


def test_a_program_that_is_killed_on_the_way_gives_a_sentence(stopped_python: Python) -> None:
    child = stopped_python.start(IN_C)
    child.expect("ready")
    with pytest.raises(GputuiError, match=f"Process {child.pid} has ended"):
        loading.put_probe_in(child.pid, lambda _sentence: child.process.kill())


@pytest.mark.long
def test_a_viewer_without_descriptors_gives_a_sentence(stopped_python: Python) -> None:
    child = stopped_python.start(situations.source("computing"))
    child.expect("ready")
    for left in some(range(12), 3):
        with few_descriptors(left), suppress(GputuiError):
            loading.put_probe_in(child.pid, lambda _sentence: None)
        with few_descriptors(left), suppress(GputuiError):
            listing.attach(child.pid).close()
        with few_descriptors(left), suppress(GputuiError):
            listing.list_probes()
        cycle(child)
    ended_undisturbed(child)


@contextmanager
def few_descriptors(left: int) -> Iterator[None]:
    """Let this process open no more than so many files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 16, before[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.parametrize("situation", ["computing", "forking"])
def test_a_probe_that_was_put_in_ends_when_nobody_is_attached(
    python: Python, sockets: Path, monkeypatch: pytest.MonkeyPatch, situation: str
) -> None:
    monkeypatch.setattr("gputui.inject.ways.payload.LINGER_S", 1.0)
    child = python.start(situations.source(situation))
    child.expect("ready")
    program_threads = len(list(Path(f"/proc/{child.pid}/task").iterdir()))
    cycle_without_end(child)
    wait_until(lambda: not list(sockets.glob("**/*.sock")), "the removal of the socket")
    wait_until(lambda: len(list(Path(f"/proc/{child.pid}/task").iterdir())) == program_threads, "the end of the thread")
    name = places.socket_name(child.pid, places.started_at(child.pid) or 0)
    wait_until(
        lambda: not places.is_bound(name), "the end of the socket, which a child of a fork may have for a moment"
    )
    with pytest.raises(listing.NoProbeError):
        listing.attach(child.pid)
    ended_undisturbed(child)


def cycle_without_end(child: Child) -> None:
    """Attach and leave again."""
    loading.put_probe_in(child.pid, lambda _sentence: None)
    listing.attach(child.pid).close()


FORKING_MEANWHILE = """
import os, _thread
names = {"allocate_lock": _thread.allocate_lock}
exec(open(%r).read(), names)
importers = []
os.register_at_fork(before=lambda: importers or importers.append(names["GputuiImporter"]("", b"")))
for _ in range(2):
    child = os.fork()
    if not child:
        os._exit(importers[0]._loading.locked())
    assert os.waitpid(child, 0)[1] == 0
    assert not importers[0]._loading.locked()
"""


def test_a_fork_that_began_before_the_hooks_were_registered_releases_no_lock() -> None:
    code = FORKING_MEANWHILE % str(BOOTSTRAP)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
