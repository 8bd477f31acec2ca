"""What variables keep for good: autograd graphs and collections of tensors that stay the same, as between cells."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.advice.held.folded import folded
from gputui.explain.advice.held.holders import Holder, holders_of
from gputui.explain.advice.situation import STANDS_STILL, Seen, Situation
from gputui.explain.advice.thresholds import FEWEST_ELEMENTS, KEPT_SHARE, PART_BYTES, SAME_LOOKS
from gputui.explain.owners.names import counted, singular
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.owners import OwnerName
from gputui.model.attached.tensors import Container
from gputui.model.weight import Weight
from gputui.units import format_bytes

SAME_SHARE = 0.9


def kept_graph(situation: Situation) -> Finding | None:
    """A variable keeps an autograd graph whose backward pass never comes, or has retained the graph."""
    for holder in _lasting(situation):
        saved = _saved_bytes(situation, holder)
        if saved < _least(situation):
            continue
        return Finding(
            weight=Weight.ADVICE,
            title=f"{holder.label} keeps an autograd graph: {format_bytes(saved)} saved for a backward pass.",
            evidence=(f"It {holder.graph}." if holder.graph else f"Together: {holder.keeps}.", _why(situation)),
            remedy=_free_graph(holder),
            bytes=saved,
            screen="tensors",
            addresses=holder.addresses,
            owners=(holder.name,),
        )
    return None


def container_tensors(situation: Situation) -> Finding | None:
    """A collection of tensors stays on the device."""
    containers = {container.name: container for container in situation.moment.containers}
    for holder in _lasting(situation):
        container = containers.get(holder.name)
        own = holder.bytes - _saved_bytes(situation, holder)
        if holder.elements < FEWEST_ELEMENTS or own < _least(situation):
            continue
        what = f"It is a {container.type}{_limit(container)}." if container else f"Together: {holder.keeps}."
        return Finding(
            weight=Weight.ADVICE,
            title=f"{holder.label} keeps {format_bytes(own)} on the device in {counted(holder.elements, 'element')}.",
            evidence=(what, _why(situation)),
            remedy=f"Keep its tensors in host memory ({singular(holder.name)}.cpu(), pinned if they go back to the"
            " device), or empty it once it has been used.",
            bytes=own,
            screen="tensors",
            addresses=holder.addresses,
            owners=(holder.name,),
        )
    return None


def _lasting(situation: Situation) -> list[Holder]:
    """Variables that keep much for good: with the same blocks in the last looks, or in a program that stands still."""
    layout = situation.device.layout
    if layout is None or layout.names_time != situation.moment.look_time:
        return []
    variables = [h for h in _holders(layout, situation.moment.containers) if h.key[0] == "variable"]
    large = [holder for holder in variables if holder.bytes >= _least(situation)]
    if situation.is_idle or not large:
        return large
    looks = situation.looks[-SAME_LOOKS:]
    if len(looks) < SAME_LOOKS or looks[-1].layout.statistics.generation == looks[0].layout.statistics.generation:
        return []
    return [holder for holder in large if all(_has(look, holder) for look in looks)]


def _has(look: Seen, holder: Holder) -> bool:
    """Whether a look found nearly the same blocks with this holder; a full buffer replaces some of its blocks."""
    containers = look.inventory.containers if look.inventory else ()
    same = next((other for other in _holders(look.layout, containers) if other.key == holder.key), None)
    if same is None:
        return False
    here, there = set(holder.addresses), set(same.addresses)
    return len(here & there) >= SAME_SHARE * max(len(here), len(there))


def _holders(layout: DeviceLayout, containers: Sequence[Container]) -> Sequence[Holder]:
    return folded(holders_of(layout, containers))


def _saved_bytes(situation: Situation, holder: Holder) -> int:
    """How many of a holder's bytes are saved for a backward pass."""
    layout, addresses = situation.device.layout, set(holder.addresses)
    blockers = layout.blockers if layout else ()
    return sum(b.block.size_bytes for b in blockers if b.owner.saved_by and b.block.address in addresses)


def _least(situation: Situation) -> float:
    return max(PART_BYTES, KEPT_SHARE * situation.device.statistics.allocated_bytes)


def _limit(container: Container) -> str:
    return f" of at most {container.limit:,}" if container.limit else ""


def _why(situation: Situation) -> str:
    if situation.moment.ended:
        return "It was still there when the program ended."
    if situation.is_idle:
        return STANDS_STILL
    return f"It kept the same blocks in each of the last {SAME_LOOKS} looks, while the program ran on."


def _free_graph(holder: Holder) -> str:
    name = holder.name
    if not holder.place and OwnerName(name).output[0] == name:
        return f"Delete it (%xdel {name}), or compute it under torch.no_grad()."
    return (
        f"Delete it (del {name}) or keep only {name}.detach() after its backward pass; if it has none, compute it under"
        " torch.no_grad()."
    )
