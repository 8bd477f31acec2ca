"""The signals that a person sends to a process, with what they mean."""

from __future__ import annotations

import signal
from typing import NamedTuple


class Signal(NamedTuple):
    """A line of the dialog."""

    number: int
    name: str
    meaning: str


SIGNALS = tuple(
    Signal(int(number), number.name, meaning)
    for number, meaning in (
        (signal.SIGINT, "interrupt, as Ctrl-C does: Python raises KeyboardInterrupt"),
        (signal.SIGTERM, "ask to end: many trainers save a checkpoint first"),
        (signal.SIGHUP, "the terminal is gone: ends, or reads its configuration again"),
        (signal.SIGUSR1, "the program's own; SLURM's warning before the time limit by habit"),
        (signal.SIGUSR2, "the program's own"),
        (signal.SIGSTOP, "pause: keeps its memory, also on the device"),
        (signal.SIGCONT, "go on after a pause"),
        (signal.SIGQUIT, "end, with a core dump where those are allowed"),
        (signal.SIGABRT, "abort: with faulthandler, Python prints where it was"),
        (signal.SIGKILL, "end at once: nothing is saved, nothing is tidied up"),
    )
)
"""In the order a dialog lists them: the gentle first, the final last."""

NUMBERS = {name: number for number, name, _ in SIGNALS}
