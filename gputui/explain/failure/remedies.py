"""What would have made room for a request that failed: a table of rules, the least effort first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from gputui.explain.advice.allocator.expandable import caution, setting
from gputui.explain.advice.thresholds import PART_BYTES
from gputui.explain.failure.phase import is_of, running_functions
from gputui.explain.owners.families import bytes_of, families
from gputui.explain.owners.names import family, listed, singular
from gputui.model.attached.analysis import Owner
from gputui.model.attached.failure import Failure, Phase, Remedy
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.owners import KEEPERS
from gputui.model.attached.tensors import WEIGHTS, Category, Container
from gputui.model.machine.device import CONTEXT_BYTES
from gputui.units import format_bytes

ELEMENTS = 4
"""A list of fewer elements that keep graphs is not taken for a growing one."""
OTHER_SHARE = 0.25
"""The share of the allocated memory from which on tensors of `Category.OTHER` are worth a remedy."""
NAMED_SHARE = 0.02
"""The share of those tensors that a family must hold to be named."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at. `members` are the owners and sizes of live blocks; `short_bytes` were missing."""

    moment: TargetMoment
    failure: Failure
    device: DeviceMoment | None
    phase: Phase
    usable_free_bytes: int
    short_bytes: int
    members: tuple[tuple[Owner, int], ...]

    @property
    def outside_bytes(self) -> int:
        """The bytes that the CUDA context, libraries and other processes hold."""
        reserved = self.device.statistics.reserved_bytes if self.device else 0
        return max(0, self.failure.device_total_bytes - self.failure.device_free_bytes - reserved)

    @property
    def stuck_bytes(self) -> int:
        return self.device.layout.release.stuck_bytes if self.device and self.device.layout else 0

    @property
    def is_expandable(self) -> bool:
        settings = self.device.layout.settings if self.device and self.device.layout else None
        return settings is not None and settings.is_expandable

    @property
    def growing(self) -> tuple[Container, int] | None:
        """The container of elements with autograd graphs that keeps most, with its bytes."""
        sizes = [
            (container, self._kept_in(container))
            for container in self.moment.containers
            if container.graphs and container.elements >= ELEMENTS
        ]
        return max(sizes, key=lambda pair: pair[1], default=None)

    def category(self, category: Category) -> int:
        """The bytes of a category."""
        return sum(size_bytes for owner, size_bytes in self.members if owner.category is category)

    def kept(self, rule: str) -> int:
        """The bytes that are kept by keepers whose facts name this rule."""
        keepers = [keeper for keeper in KEEPERS if keeper.facts.rule == rule]
        return sum(size_bytes for owner, size_bytes in self.members if owner.keeper in keepers)

    def _kept_in(self, container: Container) -> int:
        start = f"{container.name}["
        inventory = self.moment.inventory
        return sum(
            storage.size_bytes
            for storage in (inventory.storages if inventory else ())
            if storage.device == self.failure.device
            and (storage.owner.startswith(start) or storage.kept_by.startswith(start))
        )


class Rule(NamedTuple):
    """`bytes` gives how much the remedy would have freed (0: the rule does not apply), `text` what to do.

    The text may contain {bytes} and the names that `words` returns. `is_at_most`: the bytes are an upper bound.
    """

    kind: str
    bytes: Callable[[Case], int]
    text: str
    words: Callable[[Case], dict[str, str]] = lambda _case: {}
    is_at_most: bool = False


def _beyond_limit(case: Case) -> int:
    return 0 if case.failure.allowed_bytes is None else case.failure.device_free_bytes - case.usable_free_bytes


def _request(case: Case) -> int:
    """The missing bytes, where the request alone is larger than all allocated memory, and than what others hold."""
    allocated = case.device.statistics.allocated_bytes if case.device else 0
    return case.short_bytes if case.failure.requested_bytes > max(allocated, _others(case)) else 0


def _others(case: Case) -> int:
    """The memory outside PyTorch; without this process's context, if PyTorch has reserved memory and so has one."""
    has_reserved = case.device is not None and case.device.statistics.reserved_bytes > 0
    return max(0, case.outside_bytes - (CONTEXT_BYTES if has_reserved else 0))


def _assigned_again(case: Case) -> list[tuple[Owner, int]]:
    """Variables of the function that made the request, as large as it: its line may be about to replace one of them."""
    sites = {f"{site.file.rpartition('/')[2]}:{site.line} in {site.function}" for site in case.failure.stack[:1]}
    return [
        (owner, size_bytes)
        for owner, size_bytes in case.members
        if size_bytes == case.failure.requested_bytes and owner.name.place in sites
    ]


def _others_in_variables(case: Case) -> list[tuple[Owner, int]]:
    """The tensors of `Category.OTHER`, without variables of the running pass."""
    functions = running_functions(case.failure)
    others = [member for member in case.members if member[0].category is Category.OTHER]
    return [(owner, size_bytes) for owner, size_bytes in others if not is_of(functions, owner.name)]


def _variables(case: Case) -> int:
    other = sum(size_bytes for _, size_bytes in _others_in_variables(case))
    return other if other >= OTHER_SHARE * sum(size_bytes for _, size_bytes in case.members) else 0


def _variable_words(case: Case) -> dict[str, str]:
    others = _others_in_variables(case)
    least = NAMED_SHARE * sum(size_bytes for _, size_bytes in others)
    return {"names": listed(name for name, alike in families(others) if bytes_of(alike) >= least)}


def _gradients(case: Case) -> int:
    is_before_backward = case.phase in (Phase.FORWARD, Phase.EVALUATION)
    return case.category(Category.GRADIENT) if is_before_backward else 0


def _graphs(case: Case) -> int:
    return case.growing[1] if case.growing else 0


def _graph_words(case: Case) -> dict[str, str]:
    name = case.growing[0].name if case.growing else ""
    return {"name": name, "element": singular(name)}


def _in_evaluation(case: Case) -> int:
    return case.category(Category.ACTIVATION) if case.phase is Phase.EVALUATION else 0


def _foreach(case: Case) -> int:
    has_lists = any("_multi_tensor" in site.function for site in case.failure.stack)
    return sum(map(case.category, WEIGHTS)) if has_lists and case.phase is Phase.OPTIMIZER else 0


def _growing_with_batch(case: Case) -> int:
    """The bytes that grow with the batch: activations and the request; 0 in the optimizer or without activations."""
    if case.phase is Phase.OPTIMIZER:
        return 0
    activations = case.category(Category.ACTIVATION)
    return activations + case.failure.requested_bytes if activations else 0


def _batch(case: Case) -> int:
    return case.short_bytes if case.short_bytes < _growing_with_batch(case) else 0


def _batch_words(case: Case) -> dict[str, str]:
    return {"share": f"{max(1, int(100 * (1 - case.short_bytes / _growing_with_batch(case))))} %"}


def _checkpoints(case: Case) -> int:
    is_of_step = case.phase in (Phase.FORWARD, Phase.BACKWARD)
    return case.category(Category.ACTIVATION) if is_of_step else 0


RULES = (
    Rule(
        "limit",
        _beyond_limit,
        "Raise the limit that set_per_process_memory_fraction() sets: the device has {bytes} more.",
    ),
    Rule(
        "request",
        _request,
        "Split the request or use a smaller batch: {request} is more than all of the program's tensors together.",
        lambda case: {"request": format_bytes(case.failure.requested_bytes)},
    ),
    Rule(
        "others",
        _others,
        "Other processes (or libraries) hold up to {bytes} of this device: `gputui` lists them; end them, or have them"
        " call torch.cuda.empty_cache().",
        is_at_most=True,
    ),
    Rule(
        "stuck",
        lambda case: 0 if case.is_expandable else case.stuck_bytes,
        "Start the program with {setting}: {bytes} is free between live blocks. {caution}",
        lambda case: {"setting": setting(case.moment.greeting), "caution": caution(case.moment.greeting)},
        is_at_most=True,
    ),
    Rule(
        "gradients",
        _gradients,
        "Free the gradients before the forward pass: optimizer.zero_grad(set_to_none=True) right after step(), unless"
        " you accumulate them.",
    ),
    Rule(
        "exceptions",
        lambda case: case.kept("kept_by_exception"),
        "Leave the except block before you try again: an exception keeps the locals of the functions it came through.",
    ),
    Rule(
        "outputs",
        lambda case: case.kept("kept_by_output"),
        "Delete what the notebook or the interpreter has displayed: Out[n] and _ keep it.",
    ),
    *(Rule(facts.rule, partial(Case.kept, rule=facts.rule), facts.cure) for facts in KEEPERS.values() if facts.title),
    Rule(
        "assigned_again",
        lambda case: max((size_bytes for _, size_bytes in _assigned_again(case)), default=0),
        "If that line assigns a new value to {names}, delete the old one first: it lives until the new one exists.",
        lambda case: {"names": listed(family(owner.name) for owner, _ in _assigned_again(case))},
    ),
    Rule(
        "variables",
        _variables,
        "Delete what is no longer needed, or move it to host memory: {names}.",
        _variable_words,
        is_at_most=True,
    ),
    Rule(
        "graphs",
        _graphs,
        "Keep numbers in {name}, not tensors with their graph: append({element}.item()) or {element}.detach().cpu().",
        _graph_words,
        is_at_most=True,
    ),
    Rule(
        "no_grad",
        _in_evaluation,
        "Evaluate under torch.no_grad() or torch.inference_mode(): then nothing is saved for backward. model.eval()"
        " alone does not do that.",
        is_at_most=True,
    ),
    Rule(
        "foreach",
        _foreach,
        "Create the optimizer with foreach=False or fused=True: it then needs no temporary copies of all parameters.",
        is_at_most=True,
    ),
    Rule(
        "batch",
        _batch,
        "Use a smaller batch or shorter sequences: at most {share} of the present size, if nothing else needs more.",
        _batch_words,
    ),
    Rule(
        "checkpointing",
        _checkpoints,
        "Use activation checkpointing (torch.utils.checkpoint): it keeps only the inputs of blocks and computes the"
        " rest again.",
        is_at_most=True,
    ),
    Rule(
        "states",
        lambda case: case.category(Category.OPTIMIZER_STATE) * 3 // 4,
        "Use an optimizer with 8-bit states, or shard the states over the ranks (ZeRO, FSDP).",
        is_at_most=True,
    ),
)
"""Ordered from the least effort to the most."""


def remedies_for(case: Case, rules: Sequence[Rule]) -> tuple[Remedy, ...]:
    """The remedies of the rules that apply, in their order, without those that give too little to matter."""
    is_known = case.short_bytes > 0
    least = min(PART_BYTES, case.short_bytes) if is_known else PART_BYTES
    remedies = []
    for rule in rules:
        size_bytes = rule.bytes(case)
        if size_bytes >= least:
            text = rule.text.format(bytes=format_bytes(size_bytes), **rule.words(case))
            is_enough = size_bytes >= case.short_bytes if is_known else None
            remedies.append(Remedy(rule.kind, text, size_bytes, is_enough, rule.is_at_most))
    return tuple(remedies)
