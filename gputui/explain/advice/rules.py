"""The table of rules: the function that makes each finding, what it is about, and which other findings it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from gputui.explain.advice.allocator.cache import churn, failed_capture, release
from gputui.explain.advice.allocator.failures import out_of_memory, retries, room
from gputui.explain.advice.allocator.stuck import scattered, split, stuck
from gputui.explain.advice.held.copies import second_model, weight_copy
from gputui.explain.advice.held.idle import container_tensors, kept_graph
from gputui.explain.advice.held.keepers import (
    kept_by_cycle,
    kept_by_exception,
    kept_by_optimizer,
    kept_by_output,
    told,
)
from gputui.explain.advice.held.views import small_views
from gputui.explain.advice.leaks.findings import leak
from gputui.explain.advice.leaks.one_look import kept_variable
from gputui.explain.advice.outside.beside import nccl, pinned_rounding, unmapped
from gputui.explain.advice.outside.contexts import idle_context, visitors
from gputui.explain.advice.outside.driver import gap, others, pending, pools, rounding
from gputui.explain.advice.program.batch import batch
from gputui.explain.advice.program.kv_cache import kv_cache
from gputui.explain.advice.program.serving import (
    waits_for_blocks,
    waits_for_seats,
    would_not_start_again,
    would_not_wake,
)
from gputui.explain.advice.program.training import kept_gradients, one_worker, optimizer_states, unused_graph
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import COPY_MATTERS_SHARE, MATTERS_OF_RESERVED_SHARE
from gputui.model.attached.analysis import Finding
from gputui.model.attached.owners import KEEPERS


class About(Enum):
    """What the bytes of a finding are: this decides from how many bytes on the finding is shown."""

    LIVE = "live memory that could be freed"
    GROWING = "live memory that becomes more and more"
    CAPTURED = "memory that a failed capture keeps"
    CACHE = "memory that a device with much free memory does not miss"


class Rule(NamedTuple):
    """`find` makes a finding or none; the name of this function is the finding's kind.

    `replaces` are kinds of findings about the same bytes or the same request: they are left out beside this one.
    """

    find: Callable[[Situation], Finding | None]
    about: About | None = None
    replaces: tuple[str, ...] = ()
    comes_first: bool = False
    """Whether it comes first among findings of its weight: what ends or slows the program, and what most people ask."""
    is_seldom_meant: bool = False
    """Whether `PART_BYTES` are enough, also in small programs: such memory is seldom kept on purpose."""
    matters_share: float = MATTERS_OF_RESERVED_SHARE
    """Live memory that is at least this share of the reserved memory is worth a finding."""

    @property
    def kind(self) -> str:
        """The finding's kind, also in documents: do not rename a rule's function."""
        return self.find.__name__

    def finding(self, situation: Situation) -> Finding | None:
        """The finding of this rule, with its kind; None if there is nothing to say."""
        found = self.find(situation)
        return replace(found, kind=self.kind) if found else None


RULES = (
    Rule(out_of_memory, replaces=("retries", "room"), comes_first=True),
    Rule(
        kept_by_cycle,
        About.LIVE,
        replaces=("kept_graph", "container_tensors"),
        comes_first=True,
        is_seldom_meant=True,
    ),
    *(
        Rule(told(keeper), About.LIVE, comes_first=facts.is_mistake, is_seldom_meant=facts.is_mistake)
        for keeper, facts in KEEPERS.items()
        if facts.title
    ),
    Rule(leak, About.GROWING, replaces=("kept_variable",), comes_first=True),
    Rule(kept_variable, About.LIVE, comes_first=True),
    Rule(churn, comes_first=True),
    Rule(batch, comes_first=True),
    Rule(kept_by_exception, About.LIVE, replaces=("kept_graph", "container_tensors")),
    Rule(kept_by_output, About.LIVE, replaces=("kept_graph", "container_tensors")),
    Rule(kept_by_optimizer, About.LIVE),
    Rule(small_views, About.LIVE, replaces=("container_tensors",), is_seldom_meant=True),
    Rule(failed_capture, About.CAPTURED, replaces=("release",)),
    Rule(scattered, About.CACHE, replaces=("stuck", "split", "release")),
    Rule(split, About.CACHE, replaces=("stuck", "release")),
    Rule(unused_graph, About.LIVE),
    Rule(kept_graph, About.LIVE),
    Rule(container_tensors, About.LIVE),
    Rule(second_model, About.LIVE, is_seldom_meant=True, matters_share=COPY_MATTERS_SHARE),
    Rule(
        weight_copy,
        About.LIVE,
        replaces=("container_tensors",),
        is_seldom_meant=True,
        matters_share=COPY_MATTERS_SHARE,
    ),
    Rule(kept_gradients, About.LIVE),
    Rule(stuck, About.CACHE, replaces=("release",)),
    Rule(retries),
    Rule(optimizer_states),
    Rule(one_worker),
    Rule(kv_cache),
    Rule(waits_for_blocks),
    Rule(waits_for_seats),
    Rule(would_not_wake, replaces=("others",)),
    Rule(would_not_start_again, replaces=("others",)),
    Rule(idle_context, replaces=("gap", "others", "release", "room")),
    Rule(visitors),
    Rule(nccl, replaces=("release",)),
    Rule(pools, About.CACHE),
    Rule(pending, About.CACHE),
    Rule(rounding, About.CACHE),
    Rule(pinned_rounding),
    Rule(unmapped),
    Rule(gap),
    Rule(others),
    Rule(release),
    Rule(room),
)
"""Rules with `comes_first` are in the order in which their findings are shown. `relevance` reads all but `find`."""
