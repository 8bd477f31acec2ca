"""The rules about a fleet, one row each: from signs to a finding with its evidence and remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from gputui.explain.fleet import thresholds
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import Place, Sign
from gputui.model.machine.finding import MachineFinding
from gputui.model.weight import Weight
from gputui.units import format_bytes

OR_NOT = "Ranks that wait in a collective look like this; so does a server that replays CUDA graphs."
STANDING = (
    f"PyTorch has allocated and freed nothing for {thresholds.STUCK_FOR_S // 60} minutes, while the GPU was busy at "
    f"least {thresholds.BUSY_SHARE:.0%} of the time."
)


class Spoken(NamedTuple):
    """What a rule says; `about` tells findings of one rule apart, from one answer to the next."""

    where: str
    title: str
    evidence: tuple[str, ...]
    remedy: str
    about: tuple[object, ...]
    place: Place | None = None


class Rule(NamedTuple):
    """`kind` is the name in documents: do not rename it. `seen_for_s`: how long a sign has lasted when it first comes.

    `sign` is the kind of signs that the rule is given, "" for its own `kind`.
    """

    kind: str
    help: str
    weight: Weight
    speak: Callable[[Fleet, Sequence[Sign]], Iterable[Spoken]]
    seen_for_s: float = 0.0
    sign: str = ""


def spoken_of(fleet: Fleet) -> Iterator[tuple[Rule, Spoken]]:
    """What all rules say of a fleet, with the rule."""
    for rule in RULES:
        for spoken in rule.speak(fleet, _of_kind(fleet, rule.sign or rule.kind)):
            yield rule, spoken


def finding_of(rule: Rule, spoken: Spoken, since: float, *, is_older: bool) -> MachineFinding:
    """The finding that screens and documents show; `is_older`: it was there when gputui started."""
    return MachineFinding(
        kind=rule.kind,
        weight=rule.weight,
        where=spoken.where,
        title=spoken.title,
        evidence=spoken.evidence,
        remedy=spoken.remedy,
        since=since,
        is_older=is_older,
        about=" ".join(map(str, spoken.about)),
        node=spoken.place,
    )


def _unreached(fleet: Fleet, _signs: Sequence[Sign]) -> Iterator[Spoken]:
    for node in fleet.nodes:
        if node.problem and not node.problem.is_brief:
            yield Spoken(
                node.place.node,
                node.problem.cause.rstrip("."),
                (),
                node.problem.remedy,
                (node.place,),
                node.place,
            )


def _nodes_gone(fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    here = {node.place for node in fleet.nodes if node.gpus}
    for place, gone in _by_place(signs).items():
        if place not in here:
            yield Spoken(
                place.node,
                f"The node is gone: nobody tells of its {_gpus(len(gone))} any more",
                ("Its exporter was scraped within the last hour, and is not now.",),
                f"See whether it is up (ssh {place.node}), and whether its exporter runs.",
                (place,),
                place,
            )


def _devices_gone(fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    here = {node.place: node.gpus for node in fleet.nodes if node.gpus}
    for place, gone in _by_place(signs).items():
        if place in here:
            for sign in gone:
                yield Spoken(
                    _gpu(sign),
                    "The GPU is gone",
                    (f"{place.node} had {_gpus(here[place] + len(gone))} within the last hour, and has {here[place]}.",
                     f"UUID: {sign.uuid}"),
                    "Look for NVRM and Xid in the node's kernel log (dmesg), drain the node and reboot it.",
                    (place, sign.uuid),
                    place,
                )  # fmt: skip


def _lost(_fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    for sign in signs:
        yield Spoken(
            _gpu(sign),
            "The GPU does not answer any more",
            (f"UUID: {sign.uuid}",),
            "Drain the node; reset the GPU with nvidia-smi --gpu-reset, or reboot.",
            (sign.place, sign.uuid),
            sign.place,
        )


def _stuck(_fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    """One finding for all ranks of a job, as they wait for each other."""
    for together in _by_job(signs).values():
        groups = [together] if together[0].job else [[sign] for sign in together]
        for ranks in groups:
            first = min(ranks, key=lambda sign: (sign.rank is None, sign.rank or 0))
            count = f"{len(ranks)} ranks of {_job(first)} stand" if len(ranks) > 1 else f"{_rank(first)} stands"
            yield Spoken(
                _gpu(first),
                f"{count} still, and the GPU counts as busy",
                (STANDING, OR_NOT),
                f"On {first.place.node}, gputui asks NCCL which rank is behind: c on the process.",
                (first.job or (first.place, first.pid),),
                first.place,
            )  # fmt: skip


def _idle_in_job(_fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    for together in _by_job(signs).values():
        usual = median(sign.value for sign in together)
        if usual < thresholds.WORKING_SHARE:
            continue
        minutes, gpus = thresholds.IDLE_IN_JOB_FOR_S // 60, _gpus(len(together))
        idle = f"It was busy {{:.0%}} of the last {minutes} minutes; the median of the job's {gpus} is {usual:.0%}."
        for sign in together:
            if sign.value < thresholds.IDLE_SHARE:
                yield Spoken(
                    _gpu(sign),
                    f"An idle GPU in a busy job: {_job(sign)}",
                    (idle.format(sign.value),),
                    "Its rank may have ended or hang, or the job has more GPUs than ranks: see the processes there.",
                    (sign.place, sign.uuid, sign.job),
                    sign.place,
                )  # fmt: skip


def _rank_more(_fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    for together in _by_job(signs).values():
        usual = median(sign.value for sign in together)
        if len(together) < thresholds.RANKS_AT_LEAST:
            continue
        for sign in together:
            more = sign.value - usual
            if more > max(thresholds.MORE_SHARE * usual, thresholds.MORE_BYTES):
                yield Spoken(
                    sign.place.node,
                    f"{_rank(sign)} holds {format_bytes(sign.value)}, {format_bytes(more)} more than the median rank",
                    (f"The median of the job's {len(together)} ranks is {format_bytes(usual)}.",),
                    f"gputui attach {sign.place.node}:{sign.pid} shows what it holds.",
                    (sign.place, sign.pid),
                    sign.place,
                )


def _idle_held(fleet: Fleet, signs: Sequence[Sign]) -> Iterator[Spoken]:
    """GPUs that are held and idle, without those of which `_idle_in_job` says the same and more."""
    told = {spoken.about[1] for spoken in _idle_in_job(fleet, _of_kind(fleet, "idle_in_job"))}
    for sign in signs:
        if sign.uuid in told:
            continue
        yield Spoken(
            _gpu(sign),
            f"{format_bytes(sign.value)} held for an hour, and not used",
            (f"The GPU was never busy for more than {thresholds.USED_SHARE:.0%} of a moment in this time.",),
            "Ask who holds it whether it is needed: Enter on the node lists the processes.",
            (sign.place, sign.uuid),
            sign.place,
        )


RULES = (
    Rule("unreached", "a node does not answer, or has no GPU", Weight.PROBLEM, _unreached),
    Rule("node_gone", "a node is gone", Weight.PROBLEM, _nodes_gone, sign="gone"),
    Rule("gone", "a GPU is no longer there", Weight.PROBLEM, _devices_gone),
    Rule("lost", "a GPU does not answer", Weight.PROBLEM, _lost),
    Rule("stuck_rank", "a rank stands still", Weight.PROBLEM, _stuck, thresholds.STUCK_FOR_S),
    Rule("idle_in_job", "a GPU of a busy job is idle", Weight.ADVICE, _idle_in_job, thresholds.IDLE_IN_JOB_FOR_S),
    Rule("rank_more", "a rank holds more than the others", Weight.ADVICE, _rank_more),
    Rule("idle_held", "memory is held on a GPU that nobody uses", Weight.ADVICE, _idle_held, thresholds.HELD_FOR_S),
)


def _of_kind(fleet: Fleet, kind: str) -> list[Sign]:
    return [sign for sign in fleet.signs if sign.kind == kind]


def _by_place(signs: Iterable[Sign]) -> dict[Place, list[Sign]]:
    found: dict[Place, list[Sign]] = defaultdict(list)
    for sign in signs:
        found[sign.place].append(sign)
    return found


def _by_job(signs: Iterable[Sign]) -> dict[object, list[Sign]]:
    found: dict[object, list[Sign]] = defaultdict(list)
    for sign in signs:
        found[sign.job].append(sign)
    return found


def _gpu(sign: Sign) -> str:
    return f"{sign.place.node} GPU {sign.number}" if sign.number else f"{sign.place.node} {sign.uuid}"


def _job(sign: Sign) -> str:
    return f"{sign.job.kind} {sign.job.name}{f' of {sign.user}' if sign.user else ''}" if sign.job else "no job"


def _rank(sign: Sign) -> str:
    name = f"Rank {sign.rank}" if sign.rank is not None else f"Process {sign.pid}"
    return f"{name} of {_job(sign)}" if sign.job else name


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"
