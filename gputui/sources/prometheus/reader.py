"""Asks one question after the other, and puts the answers together: what is on screen first, then findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.fleet import Cost, Fleet
from gputui.model.fleet.parts import Holding, Node, Place, Readings, Sign
from gputui.sources.prometheus import answers, questions
from gputui.sources.prometheus.decode import Series
from gputui.sources.prometheus.metrics import INFO, USED_BY_PROCESS, known_of
from gputui.sources.prometheus.questions import ABOUT_FINDINGS, Asked, Question

NAMES_EVERY_S = 300.0
FINDINGS_EVERY_S = 60.0
HISTORY_POINTS, HISTORY_STEP_S = 60, 60.0
GRACE_SCRAPES, GRACE_AT_LEAST_S = 3.5, 60.0
"""A scrape may be missed, and one be late."""
NODES_AT_MOST = 100
"""Nodes in detail at a time: more are on no screen."""


class Answers(Protocol):
    """Who answers: a server, or the demonstration."""

    @property
    def address(self) -> str:
        """Who it is, for people."""
        ...

    @property
    def cost(self) -> Cost:
        """What was asked so far."""
        ...

    def ask(self, question: Question) -> tuple[Series, ...]:
        """What a question finds now. Raises `ServerError`."""
        ...

    def ask_range(self, question: Question, start: float, end: float, step_s: float) -> tuple[Series, ...]:
        """What it has found over a time."""
        ...

    def names(self) -> frozenset[str]:
        """The names of the metrics that there are."""
        ...

    def close(self) -> None:
        """Ask nothing any more; called from any thread."""
        ...


class Reader:
    """What is known so far is `fleet`; each step of a round makes the next one."""

    def __init__(self, answers_of: Answers, clock: Callable[[], float]) -> None:
        self._answers, self._clock = answers_of, clock
        self.fleet = Fleet(answers_of.address)
        self._names: frozenset[str] = frozenset()
        self._named_at = self._findings_at = float("-inf")
        self._drawn: dict[Place, float] = {}
        """When the graph of a node was asked for."""

    def steps(self, attention: FleetAttention, *, is_due: bool) -> Iterator[Fleet]:
        """A fleet after each answer: all that is due, or only what is on screen since the last time."""
        if self._clock() - self._named_at >= NAMES_EVERY_S or not self.fleet.found:
            yield self._take_names()
        if is_due or not self.fleet.time:
            yield self._take_nodes()
        yield from self._details(attention, is_due=is_due)
        if self._clock() - self._findings_at >= FINDINGS_EVERY_S:
            yield self._take_findings()
        yield from self._histories(attention)

    def everything(self) -> Fleet:
        """All nodes with all their parts, and all jobs: for a document."""
        self._take_names()
        self._take_nodes(is_whole=True)
        self._take_details(())
        self._take_jobs()
        return self._take_findings()

    def _ask(self, question: Question) -> tuple[Series, ...]:
        """The answer; nothing is asked where no exporter could answer."""
        return self._answers.ask(question) if question.expression else ()

    def _changed(self, **parts: object) -> Fleet:
        self.fleet = self.fleet._replace(**parts, cost=self._answers.cost)  # type: ignore[arg-type]
        return self.fleet

    def _take_names(self) -> Fleet:
        self._names = self._answers.names()
        series = self._ask(questions.found(self._names))
        self._named_at = self._clock()
        return self._changed(
            found=answers.found_of(series),
            scrape_interval_s=answers.interval_of(series),
            known=known_of(self._names),
            has_processes=self._names.issuperset((INFO, USED_BY_PROCESS)),
        )

    def _take_nodes(self, *, is_whole: bool = False) -> Fleet:
        asked_at = self._clock()
        nodes = answers.nodes_of(self._ask(questions.nodes(self._names, is_whole=is_whole)))
        return self._changed(nodes=_with_gone(nodes, self.fleet.signs), time=asked_at)

    def _details(self, attention: FleetAttention, *, is_due: bool) -> Iterator[Fleet]:
        known = self.fleet
        places = sorted(place for place in attention.nodes if is_due or place not in known.devices)
        if places:
            yield self._take_details(tuple(places[:NODES_AT_MOST]))
        if attention.wants_jobs and (is_due or known.jobs is None):
            yield self._take_jobs()
        for job in sorted(attention.jobs):
            if is_due or job not in known.ranks:
                series = self._ask(questions.ranks(self._names, job))
                yield self._changed(ranks={**self.fleet.ranks, job: answers.holdings_of(series)})

    def _take_details(self, places: tuple[Place, ...]) -> Fleet:
        devices = answers.devices_of(self._ask(questions.devices(self._names, places)))
        holdings = _by_place(answers.holdings_of(self._ask(questions.holdings(self._names, places))))
        asked = places or tuple(devices)
        return self._changed(
            devices={**self.fleet.devices, **{place: devices.get(place, ()) for place in asked}},
            holdings={**self.fleet.holdings, **{place: holdings.get(place, ()) for place in asked}},
        )

    def _take_jobs(self) -> Fleet:
        return self._changed(jobs=answers.jobs_of(self._ask(questions.jobs(self._names))))

    def _take_findings(self) -> Fleet:
        grace_s = max(GRACE_AT_LEAST_S, GRACE_SCRAPES * self.fleet.scrape_interval_s)
        signs: list[Sign] = []
        for asked in ABOUT_FINDINGS:
            question = questions.about_finding(asked, self._names, grace_s)
            signs += answers.signs_of(asked, self._ask(question))
        self._findings_at = self._clock()
        nodes = _with_gone((node for node in self.fleet.nodes if node.gpus), signs)
        return self._changed(signs=tuple(signs), signs_time=self._findings_at, nodes=nodes)

    def _histories(self, attention: FleetAttention) -> Iterator[Fleet]:
        now = self._clock()
        due = [place for place in attention.with_history if now - self._drawn.get(place, 0) >= HISTORY_STEP_S]
        places = tuple(sorted(due)[:NODES_AT_MOST])
        question = questions.history(self._names, places) if places else None
        if question is None or not question.expression:
            return
        end = now - now % HISTORY_STEP_S
        start = end - (HISTORY_POINTS - 1) * HISTORY_STEP_S
        series = self._answers.ask_range(question, start, end, HISTORY_STEP_S)
        self._drawn.update(dict.fromkeys(places, now))
        found = answers.history_of(series, start, HISTORY_STEP_S, HISTORY_POINTS)
        yield self._changed(history={**self.fleet.history, **found})


def _by_place(holdings: Iterable[Holding]) -> dict[Place, tuple[Holding, ...]]:
    found: dict[Place, list[Holding]] = {}
    for holding in holdings:
        found.setdefault(holding.place, []).append(holding)
    return {place: tuple(of) for place, of in found.items()}


def _with_gone(nodes: Iterable[Node], signs: Iterable[Sign]) -> tuple[Node, ...]:
    """The nodes, with those that are gone as nodes without a GPU."""
    gone: dict[Place, int] = {}
    for sign in signs:
        if sign.kind == Asked.GONE.value:
            gone[sign.place] = gone.get(sign.place, 0) + 1
    here = [node._replace(gone=gone.pop(node.place, 0)) for node in nodes if node.gpus]
    rest = [Node(place, 0, Readings(), count) for place, count in gone.items()]
    return tuple(
        sorted((*here, *rest), key=lambda node: (answers.natural(node.place.cluster), answers.natural(node.place.node)))
    )
