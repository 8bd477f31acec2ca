"""Which rows there are, in order: clusters with nodes with GPUs with processes, or jobs with processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from gputui.explain.fleet.sums import together
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import FleetDevice, Holding, Node, Place, Readings
from gputui.model.reading import value_of
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import in_order
from gputui.ui.drawing.fleet.rows import (
    ASKING,
    FLEET_ORDER_BY_NAME,
    FLEET_ORDERS,
    FleetRow,
    FleetView,
    RowKind,
    of_job,
    of_node,
)
from gputui.units import format_bytes_short

NO_DEVICES = ("no GPU now", "dim")
NO_PROCESSES = ("no process any more", "dim")


def fleet_rows(fleet: Fleet, view: FleetView, appearance: Appearance) -> tuple[FleetRow, ...]:
    """The rows of the table."""
    return tuple(_jobs(fleet, view, appearance) if view.is_by_job else _nodes(fleet, view, appearance))


def _nodes(fleet: Fleet, view: FleetView, appearance: Appearance) -> Iterator[FleetRow]:
    depth = int(len({node.place.cluster for node in fleet.nodes}) > 1)
    for cluster, group in groupby(fleet.nodes, key=lambda node: node.place.cluster):
        nodes = list(group)
        shown: list[FleetRow] = []
        below: dict[tuple[object, ...], list[FleetRow]] = {}
        for node in nodes:
            is_open = (RowKind.NODE, node.place) in view.toggled
            row = of_node(node, fleet.history.get(node.place, ()), appearance, depth, is_open=is_open)
            parts = list(_in_node(fleet, node.place, view, appearance)) if is_open or view.predicate else []
            if _is_shown(row, parts, view):
                shown.append(row)
                below[row.key] = parts
        if depth and shown:
            heading = _cluster(cluster, nodes, view, appearance)
            yield heading
            shown = shown if heading.is_open else []
        for row in _sorted(shown, view):
            yield row
            if row.is_open:
                yield from (part._replace(depth=part.depth + depth + 1) for part in _chosen(row, below[row.key], view))


def _cluster(name: str, nodes: list[Node], view: FleetView, appearance: Appearance) -> FleetRow:
    key = (RowKind.CLUSTER, name)
    return FleetRow(
        key,
        RowKind.CLUSTER,
        name or "(no cluster)",
        gpus=sum(node.gpus for node in nodes),
        readings=together(nodes),
        note=(f"{len(nodes)} node{'s' * (len(nodes) != 1)}", "dim"),
        is_open=key not in view.toggled,
        appearance=appearance,
    )


def _in_node(fleet: Fleet, place: Place, view: FleetView, appearance: Appearance) -> Iterator[FleetRow]:
    """The rows below a node, as far as they are known: they are not asked for while the node is folded."""
    devices = fleet.devices.get(place)
    key = (RowKind.NODE, place)
    if devices is None:
        if key in view.toggled:
            yield FleetRow((RowKind.NOTE, place), RowKind.NOTE, "", place=place, note=ASKING, appearance=appearance)
        return
    if not devices:
        yield FleetRow((RowKind.NOTE, place), RowKind.NOTE, "", place=place, note=NO_DEVICES, appearance=appearance)
    holdings = fleet.holdings.get(place, ())
    uuids = {device.uuid for device in devices}
    for row, device in _sorted_devices(devices, view, appearance):
        yield row
        yield from (_holding(held, device, appearance) for held in holdings if held.uuid == device.uuid)
    yield from (_holding(held, None, appearance) for held in holdings if held.uuid not in uuids)


def _sorted_devices(
    devices: Iterable[FleetDevice], view: FleetView, appearance: Appearance
) -> list[tuple[FleetRow, FleetDevice]]:
    rows = {(RowKind.DEVICE, device.uuid): device for device in devices}
    made = [
        FleetRow(
            key,
            RowKind.DEVICE,
            f"{'MIG' if device.is_instance else 'GPU'} {device.number}" if device.number else device.uuid,
            place=device.place,
            readings=device.readings,
            model=device.name,
            number=device.number,
            note=("does not answer", "alarm") if device.is_lost else (device.name, "dim"),
            appearance=appearance,
        )
        for key, device in rows.items()
    ]
    return [(row, rows[row.key]) for row in _sorted(made, view)]  # type: ignore[index]


def _holding(held: Holding, device: FleetDevice | None, appearance: Appearance, *, has_place: bool = False) -> FleetRow:
    rank = "" if held.rank is None else f"rank {held.rank}{f'/{held.world_size}' if held.world_size else ''} "
    parts = [("reserved", held.torch_reserved_bytes), ("allocated", held.torch_allocated_bytes)]
    told = [
        f"{words} {format_bytes_short(value)}" for words, reading in parts if (value := value_of(reading)) is not None
    ]
    where = f"{held.place.node} GPU {held.number}, " if has_place else ""
    program = held.program or "(program not known)"
    return FleetRow(
        (RowKind.HOLDING, held.place, held.pid, held.uuid),
        RowKind.HOLDING,
        f"{rank}{where}{program}",
        1,
        held.place,
        readings=Readings(
            busy_percent=held.busy_percent,
            used_bytes=held.used_bytes,
            **({"total_bytes": device.readings.total_bytes} if device else {}),
        ),
        user=held.user,
        job=held.job,
        holding=held,
        number=held.number,
        note=(f"PID {held.pid}{''.join(f', {words}' for words in told)}", "dim"),
        appearance=appearance,
    )


def _jobs(fleet: Fleet, view: FleetView, appearance: Appearance) -> Iterator[FleetRow]:
    jobs = fleet.jobs or ()
    told = []
    for job in jobs:
        row = of_job(job, appearance)
        held = fleet.ranks.get(job.name)
        below = [_holding(each, None, appearance, has_place=True) for each in _by_rank(held or ())]
        if row.key in view.toggled and not below:
            note = ASKING if held is None else NO_PROCESSES
            below = [FleetRow((RowKind.NOTE, job.name), RowKind.NOTE, "", 1, note=note, appearance=appearance)]
        if _is_shown(row, below, view):
            told.append((row, below))
    below_of = {row.key: below for row, below in told}
    for row in _sorted((row for row, _ in told), view):
        is_open = row.key in view.toggled
        yield row._replace(is_open=is_open)
        if is_open:
            yield from _chosen(row, below_of[row.key], view)


def _by_rank(holdings: Iterable[Holding]) -> list[Holding]:
    return sorted(holdings, key=lambda held: (held.rank is None, held.rank or 0))


def _sorted(rows: Iterable[FleetRow], view: FleetView) -> list[FleetRow]:
    return in_order(rows, FLEET_ORDER_BY_NAME.get(view.order, FLEET_ORDERS[0]), is_reversed=view.is_reversed)


def _is_shown(row: FleetRow, below: Iterable[FleetRow], view: FleetView) -> bool:
    matches = view.predicate
    return matches is None or matches(row) or any(matches(part) for part in below)


def _chosen(row: FleetRow, below: list[FleetRow], view: FleetView) -> list[FleetRow]:
    """All rows below `row` if it matches the filter, else those of them that match."""
    matches = view.predicate
    return below if matches is None or matches(row) else [part for part in below if matches(part)]
