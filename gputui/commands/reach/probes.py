"""Processes without a probe: a command asks once, puts it in, and remembers "never for this program"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import wrap

from gputui.errors import GputuiError
from gputui.explain.owners.names import listed
from gputui.inject.process.process_facts import engines_of, ranks_of
from gputui.output import narrate, typed
from gputui.protocol.relaying import NEVER, NO, YES
from gputui.sources.probe import listing, loading, never_programs
from gputui.sources.probe.client import ProbeClient

ONCE_WAITS_S = 60.0
"""How long `--once` waits for a main thread that does not come back to Python."""
WIDTH = 80
"""Columns of the question where it is printed."""


def put_probes_in(pids: list[int], *, is_assumed: bool, limit_s: float | None) -> None:
    """Put the probe into those of `pids` that have none, after a question unless `is_assumed`; raises GputuiError."""
    missing = {pid: error for pid in pids if (error := _missing_probe(pid))}
    programs = {pid: program_without_probe(pid) for pid in missing}
    if programs and not is_assumed and not _may(programs):
        raise next(iter(missing.values()))
    for pid in programs:
        loading.put_probe_in(pid, narrate, limit_s)


def attached(pid: int, command: str) -> ProbeClient:
    """The probe of a process, for a command that puts none in; raises GputuiError.

    Where a probe is missing and `gputui attach` would be refused, the error says why, instead of advising it.
    """
    try:
        return listing.attach(pid, command)
    except listing.NoProbeError:
        loading.check(pid)
        raise


def ranks_in_place_of(pid: int) -> list[int]:
    """A server's engines, or a launcher's ranks if the launcher itself cannot be attached to, or else the process."""
    engines = engines_of(pid)
    if engines and engines != [pid]:
        narrate(f"Process {pid} is a server's: its model is in {listed(map(str, engines))}, attached to in its place.")
        return engines
    ranks = ranks_of(pid)
    if ranks and not _can_attach(pid):
        narrate(f"Process {pid} has launched {len(ranks)} ranks: these are attached to in its place.")
        return ranks
    return [pid]


def _can_attach(pid: int) -> bool:
    try:
        listing.attach(pid).close()
    except listing.CannotAttachError:
        return False
    return True


def _missing_probe(pid: int) -> listing.NoProbeError | None:
    """The error of a process that has no probe, None if it has one; raises any other error of attaching."""
    try:
        listing.attach(pid).close()
    except listing.NoProbeError as error:
        return error
    return None


class Loader:
    """Puts the probe into processes for the screens, which ask the user first; the `ProbeLoader` of `ui.attach`."""

    def program(self, pid: int, error: GputuiError) -> str:
        """What a process runs whose probe is missing; raises `error`, or why the probe cannot be put in."""
        if not isinstance(error, listing.NoProbeError):
            raise error
        return program_without_probe(pid)

    def question(self, programs: dict[int, str]) -> list[str]:
        """What to ask, once for all of these processes."""
        return question(programs)

    def put_in(self, pid: int, tell: Callable[[str], object]) -> None:
        """Put the probe in, without a limit of time; `tell` gets sentences about the progress."""
        loading.put_probe_in(pid, tell)


def question(programs: Mapping[int, str] | Mapping[str, str]) -> list[str]:
    """What is asked before the probe is put into processes, given by PID or NODE:PID with what they run."""
    pids = " ".join(map(str, programs))
    names = ", ".join(dict.fromkeys(programs.values()))
    is_one = len(programs) == 1
    targets = f"process {pids}" if is_one else f"{len(programs)} processes"
    return [
        f"The probe will be put into {targets}: {names}",
        f"{'Its' if is_one else 'Each'} main thread stops for a few milliseconds, and a new thread loads it.",
        "It opens a socket for you and root, and ends ten minutes after its last viewer.",
        f"To end it at once: gputui attach {pids} --detach",
        f"To keep it out for good: start the program with GPUTUI_PROBE=0, or answer never to gputui attach {pids}",
    ]


def program_without_probe(pid: int) -> str:
    """The program of a process that has no probe; raises GputuiError if the probe may not or cannot be put in."""
    program = never_programs.program_of(pid)
    never_programs.check(pid, program)
    loading.check(pid)
    return program


def end_probes(pids: list[int], attach: Callable[[int], ProbeClient] = listing.attach) -> int:
    """End the probes that were put into processes; the exit status is not 0 where one could not be ended."""
    return max(_end_probe(pid, attach) for pid in pids)


def _end_probe(pid: int, attach: Callable[[int], ProbeClient]) -> int:
    try:
        with attach(pid) as client:
            client.end_probe()
    except GputuiError as error:
        narrate(str(error))
        return error.exit_status
    return 0


def _may(programs: dict[int, str]) -> bool:
    word = word_about(programs)
    if word == NEVER:
        for program in dict.fromkeys(programs.values()):
            never_programs.refuse(program)
    return word == YES


def word_about(programs: Mapping[int, str] | Mapping[str, str]) -> str:
    """Ask whether the probe may be put into these processes: a word of `ANSWERS`, "no" without a terminal."""
    lines = [line for sentence in question(programs) for line in wrap(sentence, WIDTH, break_on_hyphens=False)]
    answer = typed("\n".join(lines) + "\nPut it in? (yes, no, never for this program) ")
    return {"y": YES, YES: YES, NEVER: NEVER}.get(answer, NO)
