"""Asks one question after the other and joins the answers: first what is on screen, then findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.exporters import Quantity
from gputui.model.fleet.fleet import Cost, Fleet, TroubleKind
from gputui.model.fleet.parts import Holding, Node, NodeProblem, Place, Readings, Sign
from gputui.sources.prometheus import answers, questions, suspicions
from gputui.sources.prometheus.client import ServerError
from gputui.sources.prometheus.decode import Series
from gputui.sources.prometheus.metrics import INFO, USED_BY_PROCESS, Known, known_of
from gputui.sources.prometheus.questions import FAILED, FIRST, SELDOM, THEN, UNSHOWN, Asked, Question

NAMES_EVERY_S = 300.0
"""Exporters come and go, and limits change, more rarely than figures."""
YOUNG_S = 30.0
HISTORY_POINTS, HISTORY_STEP_S = 60, 60.0
GRACE_SCRAPES, GRACE_AT_LEAST_S = 3.5, 60.0
"""How long a node may be missing before it counts as gone: a scrape may be missed, and the next one late."""
MISSED = "its last scrape has failed: these are the figures before it"
SEE_TARGETS = "The page /targets of the Prometheus says why."
NODES_AT_MOST = 100
"""How many nodes are asked for in detail at a time: no screen shows more."""


OF_ONE_QUESTION = (TroubleKind.SLOW, TroubleKind.REFUSED, TroubleKind.TOO_LARGE, TroubleKind.FAILING)
"""Trouble with one question, while the server may answer others."""


class Answers(Protocol):
    """What answers questions: a server, or the demonstration."""

    @property
    def address(self) -> str:
        """The server's name for people."""
        ...

    @property
    def cost(self) -> Cost:
        """What was asked so far."""
        ...

    def ask(self, question: Question) -> tuple[Series, ...]:
        """What a question finds now. Raises `ServerError`."""
        ...

    def ask_range(self, question: Question, start: float, end: float, step_s: float) -> tuple[Series, ...]:
        """What a question has found over a time."""
        ...

    def names(self) -> frozenset[str]:
        """The names of the metrics that there are."""
        ...

    def close(self) -> None:
        """Break off a question that waits; called from any thread."""
        ...


class Reader:
    """Asks in rounds; `fleet` is what is known so far, and each step of a round replaces it."""

    def __init__(self, answers_of: Answers, clock: Callable[[], float]) -> None:
        self._answers, self._clock = answers_of, clock
        self.fleet = Fleet(answers_of.address)
        self._known = Known(frozenset())
        self._named_at = float("-inf")
        self._values: dict[Place, dict[str, float]] = {}
        self._missed: dict[Place, NodeProblem] = {}
        """The nodes of which the last answer had nothing, or whose scrape has failed."""
        self._suspected_at = dict.fromkeys(suspicions.SUSPICIONS, float("-inf"))
        self._signs: dict[Asked, tuple[Sign, ...]] = {}
        self._unanswered: dict[Asked, str] = {}
        self.is_at_findings = False
        """Whether the present question is for findings, so that the table does not wait for its answer."""
        self._drawn: dict[Place, float] = {}
        """When the graph of each node was last asked for (epoch seconds)."""

    def steps(self, attention: FleetAttention, *, is_due: bool) -> Iterator[Fleet]:
        """Ask what is due, and yield the fleet after each answer; without `is_due`, only what is new on screen."""
        self.is_at_findings = False
        is_young = self.fleet.scrape_interval_s >= answers.LONGEST_S  # or has not scraped often enough to tell
        age_s = self._clock() - self._named_at
        are_names_due = age_s >= (YOUNG_S if is_young else NAMES_EVERY_S) or not self.fleet.found
        if are_names_due:
            self._known = self._known._replace(names=self._answers.names())
        if is_due or not self.fleet.time:
            yield self._take_nodes(FIRST, is_counted=True)
            yield self._take_nodes(THEN)
        if are_names_due:
            yield self._take_nodes(SELDOM)
            yield self._take_found()
        yield from self._details(attention, is_due=is_due)
        yield from self._findings()
        yield from self._histories(attention)

    def everything(self) -> Fleet:
        """All nodes with all their parts, and all jobs: for a document."""
        self._known = Known(self._answers.names())
        self._take_found()
        self._take_nodes((*FIRST, *THEN, *SELDOM, *UNSHOWN), is_counted=True)
        self._take_details(())
        self._take_jobs()
        for fleet in self._findings():
            self.fleet = fleet
        return self.fleet

    def _ask(self, question: Question) -> tuple[Series, ...]:
        """The answer; () without asking where no exporter could answer."""
        return self._answers.ask(question) if question.expression else ()

    def _changed(self, **parts: object) -> Fleet:
        self.fleet = self.fleet._replace(**parts, cost=self._answers.cost)  # type: ignore[arg-type]
        return self.fleet

    def _take_found(self) -> Fleet:
        series = self._ask(questions.found(self._known))
        self._known = self._known._replace(kinds=answers.kinds_of(series))
        self._named_at = self._clock()
        return self._changed(
            found=answers.found_of(series),
            scrape_interval_s=answers.interval_of(series),
            known=known_of(self._known.names),
            has_processes=self._known.has(INFO, USED_BY_PROCESS),
        )

    def _take_nodes(self, quantities: Iterable[Quantity], *, is_counted: bool = False) -> Fleet:
        """Ask some quantities of all nodes; earlier answers about others stay, but for nodes that are gone."""
        asked_at = self._clock()
        question = questions.nodes(self._known, quantities, is_counted=is_counted)
        told = answers.node_values(self._ask(question))
        if is_counted:
            self._missed = self._missing(told, asked_at)
        places = {*told, *self._missed} if is_counted else self._values
        self._values = {place: {**self._values.get(place, {}), **told.get(place, {})} for place in places}
        here = (node._replace(problem=self._missed.get(node.place)) for node in answers.nodes_of(self._values))
        nodes = _with_gone(here, self.fleet.signs)
        return self._changed(nodes=nodes, time=asked_at if is_counted else self.fleet.time)

    def _missing(self, told: Mapping[Place, Mapping[str, float]], now: float) -> dict[Place, NodeProblem]:
        """Nodes without new figures: their scrape has failed, or they are missing, but not yet for `_grace_s`."""
        found = {}
        for place in {*self._values, *told}:
            if place not in told or FAILED in told[place]:
                since = self._missed[place].since if place in self._missed else now
                is_brief = now - since < self._grace_s
                if is_brief or place in told:
                    found[place] = NodeProblem(MISSED, SEE_TARGETS, since, is_brief)
        return found

    @property
    def _grace_s(self) -> float:
        return max(GRACE_AT_LEAST_S, GRACE_SCRAPES * self.fleet.scrape_interval_s)

    def _details(self, attention: FleetAttention, *, is_due: bool) -> Iterator[Fleet]:
        known = self.fleet
        places = sorted(place for place in attention.nodes if is_due or place not in known.devices)
        if places:
            yield self._take_details(tuple(places[:NODES_AT_MOST]))
        if attention.wants_jobs and (is_due or known.jobs is None):
            yield self._take_jobs()
        for job in sorted(attention.jobs):
            if is_due or job not in known.ranks:
                series = self._ask(questions.ranks(self._known, job))
                yield self._changed(ranks={**self.fleet.ranks, job: answers.holdings_of(series)})

    def _take_details(self, places: tuple[Place, ...]) -> Fleet:
        devices = answers.devices_of(self._ask(questions.devices(self._known, places)))
        holdings = _by_place(answers.holdings_of(self._ask(questions.holdings(self._known, places))))
        asked = places or tuple(devices)
        return self._changed(
            devices={**self.fleet.devices, **{place: devices.get(place, ()) for place in asked}},
            holdings={**self.fleet.holdings, **{place: holdings.get(place, ()) for place in asked}},
        )

    def _take_jobs(self) -> Fleet:
        return self._changed(jobs=answers.jobs_of(self._ask(questions.jobs(self._known))))

    def _findings(self) -> Iterator[Fleet]:
        """Ask all findings that are due, in one step: with half of them, the others would seem to be over.

        A question that is too much for the server is put off, and the table goes on without its answer.
        """
        now = self._clock()
        due = [asked for asked, it in suspicions.SUSPICIONS.items() if now - self._suspected_at[asked] >= it.every_s]
        if not due:
            return
        self.is_at_findings = True
        for asked in due:
            question = suspicions.about_finding(asked, self._known, self._grace_s)
            self._suspected_at[asked] = now
            try:
                self._signs[asked] = answers.signs_of(asked, self._ask(question))
                self._unanswered.pop(asked, None)
            except ServerError as error:
                if error.kind not in OF_ONE_QUESTION:
                    raise
                self._unanswered[asked] = str(error)
                if error.kind is TroubleKind.SLOW:
                    break  # the others wait for the next round, so that the nodes do not
        self.is_at_findings = False
        signs = tuple(sign for of in self._signs.values() for sign in of)
        nodes = _with_gone((node for node in self.fleet.nodes if node.gpus), signs)
        unanswered = tuple((asked.value, why) for asked, why in self._unanswered.items())
        yield self._changed(signs=signs, signs_time=self._clock(), nodes=nodes, unanswered=unanswered)

    def _histories(self, attention: FleetAttention) -> Iterator[Fleet]:
        now = self._clock()
        due = [place for place in attention.with_history if now - self._drawn.get(place, 0) >= HISTORY_STEP_S]
        places = tuple(sorted(due)[:NODES_AT_MOST])
        question = questions.history(self._known, places) if places else None
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
    """The nodes with the number of their gone GPUs; nodes all of whose GPUs are gone come back without a GPU."""
    gone: dict[Place, int] = {}
    for sign in signs:
        if sign.kind == Asked.GONE.value:
            gone[sign.place] = gone.get(sign.place, 0) + 1
    here = [node._replace(gone=gone.pop(node.place, 0)) for node in nodes if node.gpus]
    rest = [Node(place, 0, Readings(), count) for place, count in gone.items()]
    return tuple(sorted((*here, *rest), key=lambda node: node.place.order))
