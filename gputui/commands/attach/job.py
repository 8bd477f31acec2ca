"""The processes of a job: below a launcher on this machine, or on nodes that ssh reaches."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.commands.parser import pid_of
from gputui.errors import GputuiError, UsageError
from gputui.explain.owners.names import listed
from gputui.inject.process.process_facts import workers_of
from gputui.model.fleet.parts import Holding, JobName
from gputui.output import narrate
from gputui.sources.probe import listing
from gputui.sources.procfs import ProcFs


def processes_of_job(job: str, hosts: Sequence[str], *, with_probe: bool) -> list[str]:
    """The processes of a job as words for `where_of`. Raises `GputuiError`.

    With `hosts`, `job` is its name or one of its processes as NODE:PID, otherwise the PID of its launcher here.
    """
    if hosts:
        return _on_nodes(job, hosts)
    if ":" in job:
        cause = "--job finds the ranks of a launcher on this machine only, unless the nodes of the job are named."
        raise UsageError(cause, f"Name them: gputui attach --job {job} --hosts NODE,NODE.")
    return [str(pid) for pid in _below(pid_of(job), with_probe=with_probe)]


def _below(launcher: int, *, with_probe: bool) -> list[int]:
    """The processes that a launcher started which have a probe, and, unless `with_probe`, those that can get one.

    A first rank that has launched the others is always one of them.
    """
    workers = workers_of(launcher)
    first = {launcher}.intersection(workers)
    ranks = {*listing.children_with_probes(launcher), *(first if with_probe else workers)}
    if not ranks and ProcFs().stat(launcher) is None:
        cause = f"There is no process {launcher} here."
        raise GputuiError(cause, "`gputui attach` lists the processes you can attach to.")
    if not ranks:
        cause = f"No process below PID {launcher} has a probe" + (", or PyTorch in it." if not with_probe else ".")
        remedy = "Start the job with `gputui run torchrun ...`, or put `import gputui.probe` into the program."
        raise GputuiError(cause, f"{remedy} To attach to that process itself: gputui attach {launcher}.")
    return sorted(ranks)


def _on_nodes(job: str, hosts: Sequence[str]) -> list[str]:
    from gputui.sources.hosts.machine import hosts_once
    from gputui.sources.hosts.names import nodes_of

    fleet, _ = hosts_once(nodes_of(hosts))
    ranks = [held for name, of_job in fleet.ranks.items() if _is_meant(job, name, of_job) for held in of_job]
    silent = [node.place.node for node in fleet.nodes if node.problem]
    unanswered = f" {listed(silent)} did not answer." if silent else ""
    if ranks:
        if silent:
            narrate(f"{listed(silent)} did not answer: the processes of job {job} there are left out.")
        return list(dict.fromkeys(_word(held) for held in ranks))
    cause = f"There is no job {job} with processes on the GPUs of these nodes.{unanswered}"
    jobs = [f"{name.kind} {name.name}" for name in fleet.ranks]
    remedy = f"There are: {listed(jobs)}." if jobs else "`gputui fleet --hosts` shows what runs there."
    raise GputuiError(cause, remedy)


def _is_meant(job: str, name: JobName, ranks: Sequence[Holding]) -> bool:
    return job in (name.name, f"{name.kind} {name.name}") or any(_word(held) == job for held in ranks)


def _word(held: Holding) -> str:
    return f"{held.place.node}:{held.pid}"
