"""Programs in situations in which the probe can come; each finds out by itself whether it was disturbed.

Each prints "ready" first, then whatever it finds wrong, and "end" at last; those of `ENDLESS` end at a line of input.
"""

from __future__ import annotations

import textwrap

_CHECKSUM = """
    import itertools, math, os, select, sys, threading

    def checksum():
        whole, real = 1, 0.5
        for _ in range(20000):
            whole = (whole * 6364136223846793005 + 1442695040888963407) % 2**64
            real = math.sin(real * 3.7) + real / 3
        return whole, real

    questions = itertools.count()

    def is_told_to_end():
        # Giving up the interpreter's lock every few milliseconds, for microseconds, would starve all other threads.
        return next(questions) % 16 == 0 and bool(select.select([sys.stdin], [], [], 0)[0])

    expected = checksum()
"""
_THREADS = """
    if threading.active_count() != 1 or set(sys._current_frames()) != {threading.get_ident()}:
        print("there are threads left:", sys._current_frames(), flush=True)
    print("end", flush=True)
    sys.exit(3)
"""

ENDLESS = {
    "computing": """
        print("ready", flush=True)
        while not is_told_to_end():
            if checksum() != expected:
                print("a wrong result", flush=True)
    """,
    "waiting for input": """
        print("ready", flush=True)
        sys.stdin.readline()
    """,
    "waiting for a socket": """
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 7200)[0]:
            print("it woke up", flush=True)
    """,
    "waiting for a lock for ever": """
        lock = threading.Lock()
        lock.acquire()
        reader = threading.Thread(target=lambda: (sys.stdin.readline(), lock.release()))
        reader.start()
        print("ready", flush=True)
        lock.acquire()
        reader.join()
    """,
    "receiving signals": """
        import signal, time
        counts = [0, 0]
        class Late(Exception):
            pass
        def wait_for_another_than(before):  # Python 3.13 does not catch what is raised where a loop jumps back
            while counts[0] == before:
                pass
        def handler(number, frame):
            counts[0] += 1
            if counts[0] % 7 == 0:
                raise Late
        print("ready", flush=True)
        signal.signal(signal.SIGALRM, handler)
        while not is_told_to_end():
            before = counts[0]
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0007)
                wait_for_another_than(before)
            except Late:
                counts[1] += 1
        if counts[1] != counts[0] // 7:
            print("an exception was lost", counts, flush=True)
    """,
    "forking": """
        import warnings
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # of Python 3.12 and newer
        print("ready", flush=True)
        while not is_told_to_end():
            pid = os.fork()
            if pid == 0:
                import zipfile
                os._exit(7 if checksum() == expected else 8)
            if os.WEXITSTATUS(os.waitpid(pid, 0)[1]) != 7:
                print("a child was disturbed", flush=True)
    """,
    "forking without waiting": """
        import signal, warnings
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while not is_told_to_end():
            try:
                if os.fork() == 0:
                    os._exit(0)
            except BlockingIOError:
                pass  # too many children at a time
    """,
    "starting programs": """
        import subprocess
        print("ready", flush=True)
        while not is_told_to_end():
            if subprocess.call(["true"]) != 0:
                print("a program was disturbed", flush=True)
    """,
    "being profiled": """
        seen = set()
        print("ready", flush=True)
        sys.setprofile(lambda frame, event, argument: seen.add(frame.f_code.co_filename))
        while not is_told_to_end():
            if checksum() != expected:
                print("a wrong result", flush=True)
        sys.setprofile(None)
        if seen != {checksum.__code__.co_filename}:
            print("the profiler saw", seen, flush=True)
    """,
}
TRAINING = """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"

    def epoch():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(8):
            batch = torch.randn(16, 32)
            activation = torch.empty(1 << 18, device=device) + 1
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
        return losses

    torch.set_num_threads(1)
    expected = epoch()
    threads = len(os.listdir("/proc/self/task"))
    print("ready", flush=True)
    while not is_told_to_end():
        if epoch() != expected:
            print("other losses", flush=True)
    if len(os.listdir("/proc/self/task")) != threads:
        print("there are", len(os.listdir("/proc/self/task")), "threads instead of", threads, flush=True)
"""
"""A training on the CPU, which computes its losses, with memory on the (fake) GPU. Needs PyTorch."""
PAUSES = {
    "asleep": ("", "time.sleep(for_s)", None),
    "waiting for a lock": ("lock = threading.Lock(); lock.acquire()", "lock.acquire(timeout=for_s)", False),
    "asleep in C without the interpreter": (
        "import ctypes; usleep = ctypes.CDLL(None).usleep",
        "usleep(int(for_s * 1e6))",
        0,
    ),
    "in C with the interpreter": ("import ctypes; usleep = ctypes.PyDLL(None).usleep", "usleep(int(for_s * 1e6))", 0),
}
"""What comes before a pause, the pause, which lasts for `for_s` seconds, and what it returns."""
_LIMITED = """
    import time
    for_s = {for_s}
    {before}
    print("ready", flush=True)
    longest = 0.0
    while True:
        began = time.monotonic()
        result = {pause}
        took = time.monotonic() - began
        longest = max(longest, took)
        if result != {result} or not for_s <= took < for_s + 20:
            print("the pause returned", result, "after", took, flush=True)
        if not {is_repeated} or select.select([sys.stdin], [], [], 0)[0]:
            break
    if {is_repeated}:
        print("longest", longest, flush=True)
    while not {is_repeated} and not is_told_to_end():
        checksum()
"""
LIMITED = tuple(PAUSES)
"""They go on by themselves after 1.5 s, and then end at the next line of input."""


def source(situation: str) -> str:
    """The program in a situation."""
    if situation in PAUSES:
        return _program(_paused(situation, 1.5, is_repeated=False))
    return _program({**ENDLESS, "training": TRAINING}[situation])


def repeated(situation: str, for_s: float) -> str:
    """The program that pauses again and again until a line of input, and says how long the longest pause was."""
    return _program(_paused(situation, for_s, is_repeated=True))


def _paused(situation: str, for_s: float, *, is_repeated: bool) -> str:
    before, pause, result = PAUSES[situation]
    return _LIMITED.format(before=before, pause=pause, result=result, for_s=for_s, is_repeated=is_repeated)


def _program(body: str) -> str:
    return "".join(textwrap.dedent(part) for part in (_CHECKSUM, body, _THREADS))
