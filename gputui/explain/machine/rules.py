"""The rules about the machine, one row each: what is seen, and for how long it must be seen to be a finding.

The numbers in the rules are in `thresholds`, each with its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.explain.machine import thresholds
from gputui.explain.machine.health import ecc, gone, lost, nvlink_down, recovery, rows, silent, slow_pcie, slowed, xids
from gputui.explain.machine.host import running_out
from gputui.explain.machine.input import starved
from gputui.explain.machine.processes import foreign_contexts, orphans, unaccounted
from gputui.explain.machine.scene import Scene, Sign
from gputui.explain.machine.working import idle_held, not_working


class Rule(NamedTuple):
    """`kind` is the name in documents and in `gputui watch --until`: do not rename it.

    `after_s` is how long a sign must be seen without a break; a rule that looks at the last minute of the history adds
    this minute to it. `needs_devices`: the rule is not asked while the driver does not answer.
    """

    kind: str
    help: str
    find: Callable[[Scene], Iterable[Sign]]
    after_s: float = 0.0
    needs_devices: bool = True


RULES = (
    Rule("driver", "the driver does not answer", silent, needs_devices=False),
    Rule("lost", "a GPU does not answer", lost),
    Rule("gone", "a GPU is no longer there", gone),
    Rule("xid", "the driver reports an error (XID)", xids),
    Rule("recovery", "the driver asks for a reset or a reboot", recovery),
    Rule("ecc", "memory errors that could not be corrected", ecc),
    Rule("rows", "memory rows that wait to be replaced", rows),
    Rule("nvlink", "NVLinks are down", nvlink_down),
    Rule("pcie", "a PCIe link is slower than it could be, under load", slow_pcie, thresholds.UNDER_LOAD_AFTER_S),
    Rule("slowed", "heat or the power supply lowers a GPU's clocks", slowed, thresholds.SLOWED_AFTER_S),
    Rule("host", "memory, a limit, swap or /dev/shm runs out", running_out, needs_devices=False),
    Rule("not_working", "a GPU is busy and hardly works", not_working),
    Rule("input", "a GPU waits for its input", starved),
    Rule("idle_held", "memory is held on a GPU that nobody uses", idle_held, thresholds.HELD_FOR_S),
    Rule("orphan", "a process has lost what started it", orphans, thresholds.ORPHAN_AFTER_S),
    Rule("unaccounted", "memory that no process accounts for", unaccounted, thresholds.UNACCOUNTED_AFTER_S),
    Rule("context", "a rank has a context on another's GPU", foreign_contexts, thresholds.ORPHAN_AFTER_S),
)
