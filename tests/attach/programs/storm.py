"""Does everything at once that a look could disturb, for a number of steps:  storm.py AT_LEAST AT_MOST

It goes on until it reads a line. It prints how many steps it has made, which of its methods gputui has called, and at
its end whether a thread of the probe is left; its exit status is 7.
"""

import atexit
import os
import select
import signal
import sys
import threading
import types
import warnings
import weakref

warnings.simplefilter("ignore")
STATUS, STEPS_AT_EXIT = 7, 2


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_what_is_left():
    """Registered before the probe's own function, and so called after it."""
    ended = lifecycle._ended
    is_alive = ended is not None and os.path.exists(f"/proc/self/task/{ended._thread_id}")  # noqa: PTH110
    left = lifecycle._running is not None or is_alive
    say(f"left {left}")


atexit.register(say_what_is_left)

import greenlet  # noqa: E402
import torch  # noqa: E402

import gputui.probe  # noqa: E402, F401
from gputui.probe import lifecycle  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CALLS = []


def note(name):
    """Note a method of the program that gputui has called: Python calls them, too."""
    frame = sys._getframe(2)
    if str(frame.f_globals.get("__name__", "")).startswith("gputui."):
        CALLS.append(f"{name} by {frame.f_code.co_name}")


def noting(name, answer):
    def method(*_):
        note(name)
        return answer()

    return method


def refuse():
    raise AttributeError("it has none")


class Meta(type):
    __hash__, __eq__ = noting("class hash", lambda: 7), noting("class eq", bool)
    __instancecheck__ = __subclasscheck__ = noting("class check", bool)


class Hostile(metaclass=Meta):
    """An object on which nearly every operation runs code."""

    __getattr__, __repr__, __str__ = noting("getattr", refuse), noting("repr", str), noting("str", str)
    __hash__, __eq__, __bool__, __len__ = (
        noting("hash", int),
        noting("eq", bool),
        noting("bool", bool),
        noting("len", int),
    )
    __class__ = property(noting("class", lambda: torch.nn.Module))

    def __del__(self):
        torch.zeros(2, device=DEVICE)


class InterruptionError(Exception):
    """Raised by the signal handler, at any place of a step."""


class Signals:
    """A timer's signals, whose handler allocates, and raises once in each step."""

    def __init__(self):
        self.may_raise, self.handled, self.raised = False, 0, 0

    def handle(self, _number, _frame):
        self.handled += 1
        torch.zeros(3, device=DEVICE)
        if self.may_raise:
            self.may_raise = False
            self.raised += 1
            raise InterruptionError


SIGNALS = Signals()
MODEL = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(DEVICE)
OPTIMIZER = torch.optim.AdamW(MODEL.parameters())
LAZY = types.ModuleType("lazy")
LAZY.__getattr__ = noting("module getattr", refuse)
LAZY.__file__ = "/home/ana/lazy.py"
sys.modules["lazy"] = LAZY
KEPT = []


def loss_of(batch):
    return MODEL(torch.ones(batch, 8, device=DEVICE)).sum()


def train(batch):
    loss_of(batch).backward()
    OPTIMIZER.step()
    OPTIMIZER.zero_grad()


def train_in_a_thread(batch):
    thread = threading.Thread(target=train, args=(batch,))
    thread.start()
    thread.join()


def fork():
    child = os.fork()
    if child == 0:
        os._exit(3)
    assert os.waitpid(child, 0)[1] >> 8 == 3


def generate():
    held = torch.zeros(16, device=DEVICE)
    while True:
        yield held.sum()


def switch():
    """A greenlet that runs in the middle of its parent's step, and another time."""

    def inside():
        held = torch.ones(5, device=DEVICE)
        greenlet.getcurrent().parent.switch(held)
        return held

    child = greenlet.greenlet(inside)
    child.switch()
    child.switch()


def hold_hostile_objects():
    held = Hostile()
    object.__getattribute__(held, "__dict__")["tensor"] = torch.zeros(4, device=DEVICE)
    KEPT.append([held, {"x": Hostile()}, torch.zeros(6, device=DEVICE)])
    KEPT.append(weakref.ref(KEPT[-1][0], lambda _: torch.zeros(7, device=DEVICE)))
    del KEPT[:-20]


GENERATOR = generate()


def interrupted():
    """Part of a step that an exception of the signal handler ends at any place."""
    SIGNALS.may_raise = True
    try:
        for _ in range(1000):
            (torch.ones(4, device=DEVICE) * 2).sum()
            if not SIGNALS.may_raise:
                break
    except InterruptionError:
        pass
    finally:
        SIGNALS.may_raise = False


def step(number):
    train(2 + number % 3)
    train_in_a_thread(2)
    hold_hostile_objects()
    next(GENERATOR)
    switch()
    interrupted()
    if number % 4 == 0:
        fork()


def finish():
    """Steps after the end of the program's own code, while viewers go on."""
    for number in range(STEPS_AT_EXIT):
        step(number)
    signal.setitimer(signal.ITIMER_REAL, 0)
    say(f"hostile {sorted(set(CALLS))}")


def main():
    signal.signal(signal.SIGALRM, SIGNALS.handle)
    atexit.register(finish)
    say("ready")
    input()
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    at_least, at_most = map(int, sys.argv[1:])
    steps = 0
    while steps < at_least or (steps < at_most and not select.select([sys.stdin], [], [], 0)[0]):
        step(steps)
        steps += 1
    say(f"steps {steps} {SIGNALS.handled >= SIGNALS.raised > 0}")
    sys.exit(STATUS)


main()
