"""The signals that people send to processes, and what they do."""

from __future__ import annotations

import signal
from typing import NamedTuple


class Signal(NamedTuple):
    """One line of the dialog."""

    number: int
    name: str
    meaning: str


SIGNALS = tuple(
    Signal(int(number), number.name, meaning)
    for number, meaning in (
        (signal.SIGINT, "interrupt, as Ctrl-C does: Python raises KeyboardInterrupt"),
        (signal.SIGTERM, "ask to end: many trainers save a checkpoint first"),
        (signal.SIGHUP, "the terminal is gone: end, or reload the configuration"),
        (signal.SIGUSR1, "defined by the program; often SLURM's warning before the time limit"),
        (signal.SIGUSR2, "defined by the program"),
        (signal.SIGSTOP, "pause: keeps its memory, also on the device"),
        (signal.SIGCONT, "continue after a pause"),
        (signal.SIGQUIT, "end, with a core dump if those are enabled"),
        (signal.SIGABRT, "abort: with faulthandler, Python prints its stack"),
        (signal.SIGKILL, "end at once: nothing is saved or cleaned up"),
    )
)
"""In the order of the dialog: the gentlest first, the final one last."""

NUMBERS = {name: number for number, name, _ in SIGNALS}
