"""The finding about a leak: a variable that keeps more and more memory, or more and more tensors of a kind."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.advice.held.keepers import IN_LIST
from gputui.explain.advice.leaks.counters import Growth, growth_in, rate_words
from gputui.explain.advice.leaks.growing import GrowingVariable
from gputui.explain.advice.leaks.kinds import KindGrowth, addresses, as_one, growths, rises
from gputui.explain.advice.leaks.thresholds import GROWTH_BYTES, LOOKS
from gputui.explain.advice.leaks.variables import (
    growing_variables,
    growing_with_counters,
    suspected_variables,
)
from gputui.explain.advice.situation import Seen, Situation, category_bytes
from gputui.explain.owners.names import counted, family, listed
from gputui.explain.owners.not_yet import waits_for_key, what_names
from gputui.model.attached.analysis import Finding
from gputui.model.attached.tensors import OF_MODELS, Category
from gputui.model.weight import Weight
from gputui.protocol.owners import BELOW
from gputui.units import KIB, format_bytes, format_clock

OF_UNKNOWN_TYPE = "blocks other than parameters, gradients, optimizer states and buffers"
ONCE = "Make models and optimizers once, before the loop, and keep none that was replaced."

LINKED = "{} are the objects that {} leads to, each to others of its class, as in a tree or a linked list."
UNLINK = (
    "Cut off the objects that are no longer needed, such as by node.parent = None, or keep their tensors in host memory"
    " (.cpu())."
)

KINDS_SHOWN = 3
OTHERS_SHOWN = 2


def leak(situation: Situation) -> Finding | None:
    """A variable keeps more and more, or at least the number of tensors of some kinds grows from look to look."""
    named = _named(situation)
    if named is not None:
        return named
    looks, device = situation.looks, situation.device.index
    growth = growth_in(situation.counters)
    nameless = _nameless(situation) or (_counted(situation, growth) if growth else None)
    if nameless is None:
        return None
    likely = growing_with_counters(looks, device, growth) if growth else []
    likely = likely or suspected_variables(looks, device)
    return _finding(likely) if likely else nameless


def _named(situation: Situation) -> Finding | None:
    held = situation.moment.held_devices
    has_host = not held or held[0].index == situation.device.index
    growing = growing_variables(situation.looks, situation.device.index, has_host=has_host)
    return _finding(growing) if growing else None


def _finding(growing: Sequence[GrowingVariable]) -> Finding:
    """The finding about the first of these variables, with words about the others."""
    variable = growing[0]
    container = variable.container
    is_bounded = container is not None and container.limit > 0
    return Finding(
        weight=Weight.ADVICE if is_bounded or not variable.is_on_device else Weight.PROBLEM,
        title=_title(variable),
        evidence=(
            *_lengths(variable),
            *_attribute(variable),
            *what_it_keeps(variable),
            _span((variable.first, variable.last)),
            *(f"Also: {_title(other)}" for other in growing[1 : 1 + OTHERS_SHOWN]),
        ),
        remedy=remedy_of(variable),
        bytes=variable.kept.device_bytes if variable.is_on_device else variable.kept.freed_on_host_bytes,
        is_on_host=not variable.is_on_device,
        screen="tensors",
        addresses=variable.kept.addresses,
        owners=tuple(other.name for other in growing),
    )


def _title(variable: GrowingVariable) -> str:
    kept, container = variable.kept, variable.container
    size_bytes = kept.device_bytes if variable.is_on_device else kept.freed_on_host_bytes
    estimate = "at least " if container is None else "about "
    about = "" if variable.is_on_device and kept.is_exact else estimate
    amount = f"{about}{format_bytes(size_bytes)}{'' if variable.is_on_device else ' of host memory'}"
    return f"{located(variable)} grows: {amount} {content_of(variable)}, {rate_words(variable.bytes_per_s)}."


def content_of(variable: GrowingVariable) -> str:
    """What the memory of a growing variable is in: "in 12 graphs", "in one tensor"."""
    if variable.is_linked or variable.has_several_tensors:
        return f"in {counted(len(variable.kept.addresses), 'tensor')}"
    if variable.container is None:
        return "in the graph of one tensor" if variable.graphs else "in one tensor"
    if variable.graphs:
        return f"in {counted(variable.graphs, 'graph')}"
    of_lists = f" of {counted(variable.lists, variable.container.type)}" if variable.lists else ""
    return f"in {counted(variable.container.elements, 'element')}{of_lists}"


def located(variable: GrowingVariable) -> str:
    """The variable's name with its line: "losses (train.py:31 in main)"."""
    return f"{variable.name} ({variable.place})" if variable.place else variable.name


def _lengths(variable: GrowingVariable) -> list[str]:
    container = variable.container
    if variable.is_linked:
        return [LINKED.format(variable.name, variable.name.removesuffix(BELOW))]
    if container is None:
        return []
    limit = f" of at most {container.limit:,}" if container.limit else ""
    which = f"Its {counted(variable.lists, container.type)}" if variable.lists else f"The {container.type}"
    sentence = f"{which} grew from {variable.first_elements:,} to {container.elements:,} elements{limit}"
    if variable.graphs >= container.elements:
        return [f"{sentence}; each keeps an autograd graph."]
    return [f"{sentence}; {variable.graphs:,} of them keep an autograd graph." if variable.graphs else f"{sentence}."]


def _attribute(variable: GrowingVariable) -> list[str]:
    held_by = variable.container.held_by if variable.container else ""
    return [f"It is an attribute of {held_by}."] if held_by and held_by != variable.place else []


def what_it_keeps(variable: GrowingVariable) -> list[str]:
    """What the variable's autograd graphs keep, or else its host memory, in at most one sentence."""
    kept = variable.kept
    if not variable.graphs:
        return [f"On the host it keeps {format_bytes(kept.host_own_bytes)} more."] if kept.host_own_bytes else []
    operations = f"about {format_bytes(kept.node_bytes)} of host memory for their operations" if kept.node_bytes else ""
    on_host = f"{format_bytes(kept.host_graph_bytes)} in tensors on the host" if kept.host_graph_bytes else ""
    on_device = f"{format_bytes(kept.graph_bytes)} of activations on the device" if kept.graph_bytes else ""
    graphs = listed(filter(None, (on_device, on_host, operations)))
    own = format_bytes(kept.own_bytes + kept.host_own_bytes)
    if variable.container is None and not variable.is_linked:
        return [f"Its graph keeps {graphs}."] if graphs else []
    return [f"Its own tensors take {own}; their graphs keep {graphs}."] if graphs else []


def remedy_of(variable: GrowingVariable) -> str:
    """What to do so that the variable no longer keeps its memory."""
    container = variable.container
    if variable.kept.is_of_exceptions:
        return IN_LIST.format(variable.name)
    if variable.is_linked:
        detach = f"Detach its tensors: that would free {_freed(variable)}. " if variable.graphs else ""
        return f"{detach}{UNLINK}"
    is_of_numbers = variable.is_scalar and (variable.graphs > 0 or bool(variable.kept.shapes))
    if container is not None and container.type != CACHE and is_of_numbers:
        verb, element = _VERBS.get(container.type, "Store"), variable.element
        return f"{verb} {element}.item() instead of {element}: that would free {_freed(variable)}."
    if _is_of_views(variable) and not variable.graphs and (container is None or container.type != CACHE):
        return _without_storages(variable)
    return _without_graphs(variable) if variable.graphs else _without_tensors(variable)


def _is_of_views(variable: GrowingVariable) -> bool:
    return 2 * variable.kept.hidden_bytes > variable.kept.own_bytes


def _without_storages(variable: GrowingVariable) -> str:
    """The remedy for tensors that show little of the storages that they keep."""
    kept, container = variable.kept, variable.container
    element = variable.element
    verb = _VERBS.get(container.type, "Store") if container else "Keep"
    shown, own = format_bytes(kept.own_bytes - kept.hidden_bytes), format_bytes(kept.own_bytes)
    about = "" if kept.is_exact else "about "
    return (
        f"{verb} {element}.clone() instead of {element}: these are views of {about}{shown}, and each keeps its whole"
        f" storage, {about}{own} together."
    )


def _without_graphs(variable: GrowingVariable) -> str:
    freed = f"that would free {_freed(variable)}."
    if variable.container is None:
        return _without_graph_of_sum(variable, freed)
    element = variable.element
    verb = _VERBS.get(variable.container.type, "Store")
    if _is_of_views(variable):
        whole = f"Without clone(), a view keeps its whole storage: {format_bytes(variable.kept.own_bytes)} together."
        return f"{verb} {element}.detach().clone() instead of {element}: {freed} {whole}"
    if variable.kept.own_bytes > variable.kept.graph_bytes:
        return _without_both(variable, f"{verb} {element}.detach().cpu() instead of {element}")
    return f"{verb} {element}.detach() instead of {element}: {freed}"


def _without_both(variable: GrowingVariable, what: str) -> str:
    """The remedy for tensors that take more of the device than their graphs: freeing the graphs would not suffice."""
    own, graphs = format_bytes(variable.kept.own_bytes), _freed(variable)
    also = f", their graphs keep {graphs}" if graphs else ""
    kind = variable.container.type if variable.container else ""
    return f"{what}, or empty the {kind} once it has been used: the tensors themselves take {own}{also}."


def _without_graph_of_sum(variable: GrowingVariable, freed: str) -> str:
    layout = variable.last.layout
    if not variable.is_scalar:
        return f"Detach it once in each step ({variable.name} = {variable.name}.detach()): {freed}"
    if any(category_bytes(layout, kind) for kind in (Category.GRADIENT, Category.OPTIMIZER_STATE)):
        return (
            f"Add the .item() of each tensor to {variable.name}, without its graph: {freed} Where nothing is trained,"
            " compute it under torch.no_grad()."
        )
    return (
        f"Compute {variable.name} under torch.no_grad(), since no gradient and no optimizer state is there: {freed}"
        " Where something is trained, add the .item() of each tensor instead."
    )


def _without_tensors(variable: GrowingVariable) -> str:
    name, container = variable.name, variable.container
    if container is None:
        are_several = variable.has_several_tensors
        otherwise = "let it go once its tensors have been used" if are_several else "make it once in its final size"
        return f"Keep {name} in host memory (.cpu()), or {otherwise}."
    if container.limit:
        full = format_bytes(variable.kept.device_bytes * container.limit // max(1, container.elements))
        limit = "maxsize" if container.type == CACHE else "maxlen"
        choose = "Choose" if variable.is_full else f"When it is full, it takes {full}: choose"
        return f"{choose} a smaller {limit}, or keep its tensors in host memory (.cpu())."
    if container.type == CACHE:
        return f"Give the lru_cache of {name} a maxsize, or call {name}.cache_clear() when its results are used up."
    if container.type == "deque":
        return _bounded(name, "" if container.held_by else next(filter(name.endswith, _QUEUES), ""))
    if container.type in _MAPPINGS:
        return f"Delete the entries of {name} that are no longer needed, or keep them in host memory (.cpu())."
    element, verb = variable.element, _VERBS.get(container.type, "Store")
    return f"{verb} {element}.cpu() instead of {element}, or empty the {container.type} once it has been used."


def _bounded(name: str, attribute: str) -> str:
    if attribute in _QUEUES:
        queue, made = name.removesuffix(attribute), _QUEUES[attribute]
        return f"Give {queue} a maxsize, so that put() waits until there is room: {made}(maxsize=8), for example."
    return f"Give {name} a maxlen, or keep its tensors in host memory (.cpu())."


_VERBS = {"list": "Append", "deque": "Append", "set": "Add"}
_MAPPINGS = frozenset({"dict", "defaultdict", "OrderedDict"})
CACHE = "lru_cache"
_QUEUES = {".queue": "queue.Queue", "._queue": "asyncio.Queue"}
"""How the path of a deque inside one of Python's queues ends; the program's code has only what stands before."""


def _freed(variable: GrowingVariable) -> str:
    """What would be freed without the graphs; of a container of scalars, which numbers can replace, all memory."""
    kept = variable.kept
    freed_bytes = kept.device_bytes if variable.container and variable.is_scalar else kept.graph_bytes
    on_device = f"{'' if kept.is_exact else 'about '}{format_bytes(freed_bytes)}" if freed_bytes >= KIB else ""
    on_host = f"about {format_bytes(kept.freed_on_host_bytes)} of host memory" if kept.freed_on_host_bytes else ""
    return listed(filter(None, (on_device, on_host)))


def _nameless(situation: Situation) -> Finding | None:
    """Growth that no variable is known to keep: by kind of tensor if every look was complete, else of all tensors."""
    are_complete = len(situation.looks) >= LOOKS and all(look.is_complete for look in situation.looks)
    is_bare = len(situation.looks) < LOOKS
    looks = situation.bare_looks if is_bare else situation.looks
    if len(looks) < LOOKS or looks[-1].layout.statistics.generation == looks[0].layout.statistics.generation:
        return None
    rising = growths([look.layout.groups if are_complete else as_one(look.layout) for look in looks])
    grown_bytes = sum(growth.bytes for growth in rising)
    if grown_bytes < GROWTH_BYTES:
        return None
    more = "" if looks[-1].layout.is_searched else what_names(situation.moment)
    return Finding(
        weight=Weight.PROBLEM,
        title="A leak: the program keeps more and more tensors,"
        f" {format_bytes(grown_bytes)} more since the first look.",
        evidence=(_span((looks[0], looks[-1])), *map(_kind, rising[:KINDS_SHOWN])),
        remedy=f"See them on the Tensors screen. {more}".rstrip(),
        needs_look=bool(more) and waits_for_key(situation.moment),
        bytes=grown_bytes,
        screen="tensors",
        addresses=addresses(looks[-1].layout, rising[0]),
        owners=rising[0].group.names[-1:],
    )


def _counted(situation: Situation, growth: Growth) -> Finding:
    """Growth that the counters show before looks can name what grows, except parts of models and optimizers."""
    grown, since = format_bytes(growth.bytes), format_clock(growth.since)
    parts = _growing_parts(situation.looks)
    unknown = "The counters show it beyond the rise and fall of each step; no look has found yet what grows."
    return Finding(
        weight=Weight.PROBLEM,
        title=f"Allocated memory grows: {grown} more since {since}, {rate_words(growth.bytes_per_s)}.",
        evidence=tuple(parts) or (unknown,),
        remedy=ONCE if parts else what_names(situation.moment, "what grows"),
        needs_look=not parts and waits_for_key(situation.moment),
        bytes=growth.bytes,
        screen="tensors",
    )


def _growing_parts(looks: Sequence[Seen]) -> list[str]:
    """Sentences on which parts of models and optimizers grow from look to look, each with one new tensor."""
    sentences = []
    for category in OF_MODELS if len(looks) >= LOOKS else ():
        groups = [[group for group in look.layout.groups if group.category is category] for look in looks]
        sizes = [sum(group.bytes for group in some) for some in groups]
        if rises(sizes) and sizes[-1] - sizes[0] >= GROWTH_BYTES:
            names = [[name for group in some for name in group.names] for some in (groups[0], groups[-1])]
            new = next((name for name in reversed(names[-1]) if name not in set(names[0])), "")
            example = f", such as {new}" if new else ""
            before, after = format_bytes(sizes[0]), format_bytes(sizes[-1])
            sentences.append(f"The {category.words}s went from {before} to {after}{example}.")
    return sentences


def _span(looks: tuple[Seen, Seen]) -> str:
    first, last = looks
    before, after = (format_bytes(look.layout.statistics.allocated_bytes) for look in looks)
    return (
        f"From {format_clock(first.time)} to {format_clock(last.time)} allocated memory went from {before} to {after}."
    )


def _kind(growth: KindGrowth) -> str:
    group = growth.group
    names = f", such as {listed(family(name) for name in group.names[-1:])}" if group.names else ""
    category = "tensor" if group.category is Category.OTHER else group.category.words
    what = f"{category}s {group.shape or '()'} {group.dtype}" if group.dtype else OF_UNKNOWN_TYPE
    return f"From {growth.first:,} to {growth.last:,} {what}, {format_bytes(growth.bytes)} more{names}."
