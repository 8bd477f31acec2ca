"""Variants of a target that are rehearsed too: the stages of its pipeline, and what the user wants to try."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gputui.errors import UsageError
from gputui.explain.check.target import Target, over_mesh, words_of

STAGES = "pp"
"""The dimension of a mesh along which ranks differ: each has another part of the model."""


def of_all_stages(target: Target) -> list[Target]:
    """For each stage of a pipeline its first rank as a target; only `target` without stages, or if it names a rank."""
    stages = target.mesh.get(STAGES, 1)
    if stages == 1 or target.rank:
        return [target]
    named = (replace(target, name=f"{target.name}, stage {stage + 1} of {stages}") for stage in range(stages))
    return [_in_stage(one, stage) for stage, one in enumerate(named)]


def _in_stage(target: Target, stage: int) -> Target:
    """The target as the first of the ranks that hold a stage."""
    names = list(target.mesh)
    apart = math.prod(target.mesh[name] for name in names[names.index(STAGES) + 1 :])
    return replace(target, rank=stage * apart, stage=stage)


def tried(target: Target, words: str) -> Target:
    """The target with other arguments: `batch=16,tp=2` of a function, more words of a program. Raises UsageError.

    An argument with the name of a dimension of the mesh changes the dimension's size, and so the number of ranks.
    """
    if target.program:
        return replace(target, name=words, program=(*target.program, *words_of(words)))
    changes: dict[str, Any] = {}
    for part in words.split(","):
        name, is_given, value = part.strip().partition("=")
        if not (name.isidentifier() and is_given):
            cause = f"{words!r} is no change of arguments."
            raise UsageError(cause, "Write arguments of the function with their values, such as --try batch=16.")
        changes[name] = _value_of(value)
    if STAGES in target.mesh and STAGES in changes:
        cause = "How many stages there are changes each of them, so it cannot be tried beside one."
        raise UsageError(cause, f"Ask for it by itself: --mesh {STAGES}={changes[STAGES]}.")
    sizes = ",".join(f"{name}={changes.pop(name, size)}" for name, size in target.mesh.items())
    changed = replace(target, name=words, arguments=MappingProxyType({**target.arguments, **changes}))
    if not sizes:
        return changed
    changed = over_mesh(replace(changed, world_size=1, rank=0), sizes)
    return _in_stage(changed, target.stage) if STAGES in changed.mesh else _same_rank(changed, target.rank)


def _same_rank(target: Target, rank: int) -> Target:
    """The target as the rank that was asked about, or as the last rank if there are fewer."""
    return replace(target, rank=min(rank, target.world_size - 1))


_PYTHONS_WORDS: Mapping[str, Any] = MappingProxyType({"True": True, "False": False, "None": None})


def _value_of(text: str) -> object:
    """A value as JSON or Python writes it, such as a number, true or None; else the text itself."""
    if text in _PYTHONS_WORDS:
        return _PYTHONS_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
