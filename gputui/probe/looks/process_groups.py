"""Reads how many collectives this process has launched in each of its process groups, as PyTorch counts them.

The number is a field of the group: reading it asks neither CUDA nor NCCL, takes no lock, and waits for no other rank.
So the probe's own thread can read it even while the main thread waits for other ranks.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from gputui.probe.guards.thread_frames import current_frames, stack
from gputui.probe.guards.thread_numbers import main_ident
from gputui.probe.objects import plain, stacks

GROUPS_AT_MOST = 64
"""How many groups are read: a program with many dimensions of parallelism has some ten."""


def fields() -> dict[str, Any]:
    """The fields of `model.attached.target.Statistics` about collectives; empty without groups of several ranks."""
    groups = _groups()
    return {"groups": groups, "main_thread": _main_thread_line() if groups else ""}


def _groups() -> list[dict[str, Any]]:
    """The fields of `model.collectives.Launched` for each group with other ranks.

    They are read through PyTorch's own class, past methods that a subclass in the program overrides.
    """
    module = sys.modules.get("torch.distributed.distributed_c10d")
    variables = plain.variables_of(plain.module_variables(module)) if module is not None else {}
    world, cls = variables.get("_world"), variables.get("ProcessGroup")
    if world is None or cls is None:  # nothing is distributed, or PyTorch is older than 2.0
        return []
    names = {id(group): str(name) for group, name in list(world.pg_names.items())}
    job = ":".join(filter(None, map(os.environ.get, ("MASTER_ADDR", "MASTER_PORT"))))
    groups = [(group, ranks) for group, ranks in list(world.pg_group_ranks.items()) if len(ranks) > 1]
    found = []
    for group, ranks in groups[:GROUPS_AT_MOST]:
        key, launched = names.get(id(group), ""), _launched(cls, group)
        if key and launched is not None:
            found.append(
                {
                    "job": job,
                    "key": key,
                    "name": _description(cls, group) or key,
                    "first_rank": min(ranks),
                    "size": len(ranks),
                    "rank": cls.rank(group),
                    "launched": launched,
                }
            )
    return found


def _launched(cls: Any, group: Any) -> int | None:  # noqa: ANN401
    """The number of collectives; None if the backend does not count them."""
    try:
        return int(cls._get_sequence_number_for_group(group))
    except RuntimeError:
        return None


def _description(cls: Any, group: Any) -> str:  # noqa: ANN401
    """The group's name from the program or a device mesh; "" without one, and in PyTorch before 2.4."""
    described = getattr(cls, "group_desc", None)
    name = str(described.__get__(group)) if described is not None else ""
    return "" if name == "undefined" else name


def _main_thread_line() -> str:
    """The line of the program's own code at which the main thread is: "train.py:23 in step"; "" if it is not known.

    While a library runs, that is the line that called the library.
    """
    ident = main_ident()
    top = None if ident is None else current_frames().get(ident)
    frames = [] if top is None else [frame for frame in stack(top) if not stacks.is_of_probe(frame)]
    own = (frame for frame in frames if not stacks.is_of_library(frame) and not stacks.is_of_package(frame.f_globals))
    frame = next(own, frames[0] if frames else None)
    return "" if frame is None else stacks.place(frame.f_code, frame.f_lineno, {})
