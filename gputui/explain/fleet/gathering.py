"""A fleet put together from what each node tells of itself, with the jobs and signs that span several nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gputui.explain.fleet import thresholds
from gputui.explain.fleet.sums import of_devices
from gputui.model.fleet.exporters import Exporter, Found, Quantity
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import NOT_EXPORTED, FleetDevice, Holding, Job, JobName, Node, Place, Sign
from gputui.model.history import SPANS_S, History
from gputui.model.machine.finding import MachineFinding
from gputui.model.reading import value_of
from gputui.model.told import Told

BUSY = "busy"
GRAPH_POINTS, GRAPH_ZOOM = 60, 1
"""The points of a node's graph and their zoom: ten minutes. There is no history from before gputui was started."""
_QUANTITIES = {
    Quantity.BUSY: "busy_percent",
    Quantity.SM_ACTIVE: "sm_active_percent",
    Quantity.TENSOR: "tensor_percent",
    Quantity.USED: "used_bytes",
    Quantity.TOTAL: "total_bytes",
    Quantity.POWER: "power_w",
    Quantity.LIMIT: "power_limit_w",
    Quantity.TEMPERATURE: "temperature_c",
}


class Gathering:
    """Makes a fleet of what nodes tell, and keeps how busy their GPUs have been since it was made."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._history = History()
        self._heard: dict[Place, float] = {}

    def take(self, told: Sequence[Told], now: float) -> tuple[Fleet, tuple[MachineFinding, ...]]:
        """The fleet at the time `now`, and the findings that nodes have made themselves."""
        for of in told:
            self._keep(of)
        devices = {of.place: of.look.devices for of in told if of.look}
        holdings = {of.place: of.look.holdings for of in told if of.look}
        gpus = [gpu for each in devices.values() for gpu in each if not gpu.is_instance]
        ranks = _by_job(held for each in holdings.values() for held in each)
        nodes = tuple(_node(of) for of in told)
        fleet = Fleet(
            server="ssh",
            time=max((of.time for of in told), default=0.0),
            scrape_interval_s=self._interval_s,
            found=(Found(Exporter.SSH, len({gpu.place for gpu in gpus}), len(gpus)),) if gpus else (),
            known=_known(gpus),
            has_processes=True,
            nodes=nodes,
            devices=devices,
            holdings=holdings,
            jobs=_jobs(ranks, gpus),
            ranks=ranks,
            signs=(*_of_ranks(ranks), *self._of_jobs(ranks)),
            signs_time=now,
            history={node.place: self._graph(node.place) for node in nodes if node.gpus},
        )
        return fleet, tuple(finding for of in told if of.look and not of.problem for finding in of.look.findings)

    def _keep(self, told: Told) -> None:
        if told.look is None or self._heard.get(told.place) == told.time:
            return
        self._heard[told.place] = told.time
        readings = [
            (told.place.node, told.look.node.readings),
            *((gpu.uuid, gpu.readings) for gpu in told.look.devices),
        ]
        for owner, reading in readings:
            busy = value_of(reading.busy_percent)
            if busy is not None:
                self._history.add(told.time, owner, [(BUSY, busy / 100)])

    def _graph(self, place: Place) -> tuple[float | None, ...]:
        return tuple(self._history.last(place.node, BUSY, GRAPH_POINTS, GRAPH_ZOOM))

    def _of_jobs(self, ranks: dict[JobName, tuple[Holding, ...]]) -> Iterator[Sign]:
        """How busy each GPU of a job was in `IDLE_IN_JOB_FOR_S`; without GPUs that were not watched for so long."""
        count = round(thresholds.IDLE_IN_JOB_FOR_S / SPANS_S[GRAPH_ZOOM])
        for job, holdings in ranks.items():
            for held in {held.uuid: held for held in holdings}.values():
                points = self._history.last(held.uuid, BUSY, count, GRAPH_ZOOM)
                known = [point for point in points if point is not None]
                if points[0] is not None:
                    mean = sum(known) / len(known)
                    yield Sign("idle_in_job", held.place, held.uuid, held.number, job, held.user, value=mean)


def _node(told: Told) -> Node:
    node = told.look.node if told.look else Node(told.place, 0)
    return node._replace(problem=told.problem, is_awaited=told.look is None and told.problem is None)


def _known(gpus: Iterable[FleetDevice]) -> frozenset[Quantity]:
    """The quantities that at least one GPU tells; all of them while there is no GPU."""
    readings = [gpu.readings for gpu in gpus]
    told = (quantity for quantity, name in _QUANTITIES.items()
            if not readings or any(value_of(getattr(each, name)) is not None for each in readings))  # fmt: skip
    return frozenset((Quantity.PRESENT, Quantity.LOST, *told))


def _by_job(holdings: Iterable[Holding]) -> dict[JobName, tuple[Holding, ...]]:
    found: dict[JobName, list[Holding]] = defaultdict(list)
    for held in holdings:
        if held.job:
            found[held.job].append(held)
    return {job: tuple(of) for job, of in found.items()}


def _jobs(ranks: dict[JobName, tuple[Holding, ...]], gpus: Iterable[FleetDevice]) -> tuple[Job, ...]:
    """The jobs, the ones with most GPUs first."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    found = []
    for name, holdings in ranks.items():
        uuids = {held.uuid for held in holdings}
        used = [value for held in holdings if (value := value_of(held.used_bytes)) is not None]
        together = of_devices(by_uuid[uuid] for uuid in uuids if uuid in by_uuid)
        processes = {(held.place, held.pid) for held in holdings}
        places = {held.place for held in holdings}
        total = sum(used) if used else NOT_EXPORTED
        found.append(Job(name, holdings[0].user, len(places), len(uuids), len(processes), total, together.busy_percent))
    return tuple(sorted(found, key=lambda job: (-job.gpus, job.name)))


def _of_ranks(ranks: dict[JobName, tuple[Holding, ...]]) -> Iterator[Sign]:
    """How many bytes each rank holds, on all its GPUs together."""
    for job, holdings in ranks.items():
        used: dict[tuple[Place, int], float] = defaultdict(float)
        for held in holdings:
            value = value_of(held.used_bytes)
            if value is not None and held.rank is not None:
                used[held.place, held.pid] += value
        of = {(held.place, held.pid): held for held in holdings}
        for key, value in used.items():
            held = of[key]
            yield Sign("rank_more", held.place, job=job, user=held.user, pid=held.pid, rank=held.rank, value=value)
