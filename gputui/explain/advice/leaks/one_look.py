"""The finding about the variable that keeps most, before there are looks enough to tell whether it grows."""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.advice.held.folded import folded
from gputui.explain.advice.held.holders import Holder, holders_of
from gputui.explain.advice.leaks.findings import CACHE, content_of, remedy_of, what_it_keeps
from gputui.explain.advice.leaks.growing import GrowingVariable
from gputui.explain.advice.leaks.thresholds import LOOKS
from gputui.explain.advice.leaks.variables import in_one_look
from gputui.explain.advice.situation import Situation, category_bytes
from gputui.explain.advice.thresholds import FEWEST_ELEMENTS, MATTERS_OF_RESERVED_SHARE, PART_BYTES
from gputui.explain.owners.names import counted
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import OF_MODELS, Category
from gputui.model.weight import Weight
from gputui.units import format_bytes

OF_TRAINING = (Category.GRADIENT, Category.OPTIMIZER_STATE)
"""In a program that has these, a local variable with a graph has the graph of the present step."""
MODELS = (
    "Keep one model and one optimizer on the device: move a model that is ready to host memory (.cpu()) and let its"
    " optimizer go, or save its weights to a file."
)


def kept_variable(situation: Situation) -> Finding | None:
    """A variable keeps much memory: what to do if it grows, which so few looks cannot tell."""
    layout, looks = situation.device.layout, situation.looks
    if layout is None or not looks or len(looks) >= LOOKS:
        return None
    containers = looks[-1].inventory.containers if looks[-1].inventory else ()
    single = [holder for holder in holders_of(layout, containers) if holder.key[0] == "variable"]
    largest = next((holder for holder in folded(single) if holder.key[0] == "variable"), None)
    least_bytes = max(PART_BYTES, MATTERS_OF_RESERVED_SHARE * layout.statistics.reserved_bytes)
    if largest is None or largest.bytes < least_bytes:
        return None
    of_it = next(holder for holder in single if holder.addresses[0] in largest.addresses)
    variable = in_one_look(looks[-1], of_it.name, situation.device.index)
    if variable is None or not _may_grow(variable, largest, layout):
        return None
    variable = replace(variable, name=largest.name)
    is_all = of_it.bytes == largest.bytes
    content = content_of(variable) if is_all else f"in {counted(largest.elements, 'element')}"
    content += _how(variable)
    future = ", as many as it may have" if is_all and variable.is_full else ": a leak if it grows"
    return Finding(
        weight=Weight.FACT,
        title=f"{largest.label} keeps {format_bytes(largest.bytes)} {content}{future}.",
        evidence=tuple(what_it_keeps(variable)) if is_all else (),
        remedy=MODELS if _is_of_models(largest, layout) else remedy_of(variable),
        bytes=largest.bytes,
        screen="tensors",
        addresses=largest.addresses,
        owners=(largest.name,),
    )


def _how(variable: GrowingVariable) -> str:
    """Words for what the name does not show: that its tensors are views, or that it is an `lru_cache`."""
    kept, container = variable.kept, variable.container
    if 2 * kept.hidden_bytes > kept.own_bytes:
        return f", through views of {format_bytes(kept.own_bytes - kept.hidden_bytes)}"
    return f" of an {container.type}" if container is not None and container.type == CACHE else ""


def _may_grow(variable: GrowingVariable, holder: Holder, layout: DeviceLayout) -> bool:
    """Whether it is a collection, or has an autograd graph that is not that of a training step."""
    if variable.container is not None:
        return holder.elements >= FEWEST_ELEMENTS
    is_of_step = any(category_bytes(layout, kind) for kind in OF_TRAINING) and variable.name.isidentifier()
    return variable.graphs > 0 and not is_of_step


def _is_of_models(holder: Holder, layout: DeviceLayout) -> bool:
    """Whether most blocks that it keeps are parts of models and optimizers."""
    owners = [owner for address in holder.addresses if (owner := layout.owners.get(address))]
    return 2 * sum(owner.category in OF_MODELS for owner in owners) > len(owners)
