"""What `gputui check` is asked about: a step of one rank, its budget, and how much its peak may rise."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from gputui.errors import UsageError, did_you_mean
from gputui.explain.check.devices import KnownDevice, device_of
from gputui.explain.whatif.by_hand import bytes_of

TOLERANCE = 0.01
"""The share by which a peak may rise above its baseline where the target names no other."""
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Target:
    """A step to rehearse: of `function` ("MODULE:FUNCTION"), called with `arguments`, or of `program`.

    `program` has words: `train.py ARGUMENT...` or `-m MODULE ARGUMENT...`. `settings` are written as in
    PYTORCH_ALLOC_CONF. `budget_bytes` None: every peak fits. `tolerance` is a share. `device` is the GPU that the
    program sees, None for the default. `rank` is the one of `world_size` that is rehearsed.
    """

    name: str
    function: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    settings: str = ""
    budget_bytes: int | None = None
    tolerance: float = TOLERANCE
    program: tuple[str, ...] = ()
    device: KnownDevice | None = None
    world_size: int = 1
    rank: int = 0
    python: str = ""
    """The path of the interpreter before the program, "" where no path was given."""
    mesh: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The dimensions of the device mesh with their sizes, the outermost first."""
    stage: int = 0
    """The number of the pipeline's stage that the rank holds."""
    tries: tuple[str, ...] = ()
    """Variants for the plan, each as other arguments of the function, or more words of the program."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of `[[tool.gputui.check]]` as written in pyproject.toml; the names of the fields are its keys."""

    function: str = ""
    run: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    settings: str = ""
    device: str = ""
    budget: str = ""
    tolerance: str = ""
    world_size: int = 1
    rank: int = 0
    mesh: str = ""
    tries: list[str] = field(default_factory=list)


_TYPES: Mapping[str, type] = MappingProxyType({"arguments": dict, "world_size": int, "rank": int, "tries": list})
_FORMS = MappingProxyType({dict: "a table", int: "a number", str: "a text in quotes", list: "a list of texts"})


def target_of(raw: Mapping[str, Any]) -> Target:
    """The target of an entry of `[[tool.gputui.check]]`. Raises UsageError, which names a wrong key."""
    known = [one.name for one in fields(Row)]
    for key, value in raw.items():
        if key not in known:
            cause = f"A target of [[tool.gputui.check]] has no key {key!r}."
            raise UsageError(cause, did_you_mean(key, known) or f"Its keys are {', '.join(known)}.")
        if not isinstance(value, _TYPES.get(key, str)):
            cause = f"{key} of a target of [[tool.gputui.check]] cannot be {value!r}."
            raise UsageError(cause, f"Write {_FORMS[_TYPES.get(key, str)]}.")
    if ("function" in raw) == ("run" in raw):
        cause = "A target of [[tool.gputui.check]] names no function, and no program to run; or both."
        raise UsageError(cause, 'Write function = "MODULE:FUNCTION", or run = "train.py ARGUMENT...".')
    row = Row(**raw)
    check_rank(row.world_size, row.rank)
    target = Target(
        row.name or row.function or row.run,
        row.function,
        MappingProxyType(row.arguments),
        row.settings,
        budget_of(row.budget, row.device),
        tolerance_of(row.tolerance) if row.tolerance else TOLERANCE,
        program_of(words_of(row.run)) if row.run else (),
        device_of(row.device) if row.device else None,
        row.world_size,
        row.rank,
        interpreter_of(words_of(row.run)),
        tries=tuple(map(str, row.tries)),
    )
    return over_mesh(target, row.mesh) if row.mesh else target


_INTERPRETER = re.compile(r"(?:.*/)?python[\d.]*")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "srun", "uv", "poetry")


def interpreter_of(words: Sequence[str]) -> str:
    """The interpreter before a program if it is a path, else "": a bare "python" is the environment's."""
    return words[0] if words and "/" in words[0] and _INTERPRETER.fullmatch(words[0]) else ""


def program_of(words: Sequence[str]) -> tuple[str, ...]:
    """The words without an interpreter: `train.py ARGUMENT...` or `-m MODULE ARGUMENT...`. Raises UsageError."""
    if words and _INTERPRETER.fullmatch(words[0]):
        words = words[1:]
    example = "gputui check --run train.py ARGUMENT..."
    if not words or words == ["-m"]:
        cause = "No program is named to run."
        raise UsageError(cause, f"For example: {example}")
    if words[0].rpartition("/")[2] in _LAUNCHERS or words[:2] == ["-m", "torch.distributed.run"]:
        cause = f"{words[0]} starts the program that trains, and one rank of that is rehearsed in one process."
        raise UsageError(cause, "Name the script itself: gputui check --world-size 8 --run train.py ARGUMENT...")
    if words[0].startswith("-") and words[0] != "-m":
        cause = f"What is run begins with {words[0]}."
        raise UsageError(cause, f"Options of gputui go before --run, those of the script behind its name: {example}")
    return tuple(words)


def words_of(text: str) -> list[str]:
    """The words of a command line as a shell splits them. Raises UsageError."""
    try:
        return shlex.split(text)
    except ValueError:
        cause = f"A quote in {text!r} has no other half."
        raise UsageError(cause, "Write the program as in a shell, such as train.py --name 'my model'.") from None


_WORLD_AT_MOST = 1 << 20


def check_rank(world_size: int, rank: int) -> None:
    """Raise UsageError for a rank that a job does not have."""
    if not 1 <= world_size <= _WORLD_AT_MOST:
        cause = f"A job cannot have {world_size} ranks."
        raise UsageError(cause, "Write how many processes it has in all, such as --world-size 8.")
    if not 0 <= rank < world_size:
        cause = f"There is no rank {rank} of {world_size}."
        raise UsageError(cause, f"Ranks are from 0 to {world_size - 1}; --world-size says how many there are.")


def mesh_of(words: str) -> Mapping[str, int]:
    """The dimensions in "dp=8,tp=8" with their sizes, the outermost first. Raises UsageError."""
    mesh: dict[str, int] = {}
    for part in words.split(","):
        name, _, size = part.strip().partition("=")
        if not (name.isidentifier() and size.isascii() and size.isdecimal() and int(size)) or name in mesh:
            cause = f"A mesh cannot be {words!r}."
            raise UsageError(cause, "Write its dimensions with their sizes, the outermost first, such as dp=8,tp=8.")
        mesh[name] = int(size)
    check_rank(math.prod(mesh.values()), 0)
    return MappingProxyType(mesh)


def over_mesh(target: Target, words: str) -> Target:
    """The target with a mesh such as "dp=8,tp=8", and as many ranks as it has. Raises UsageError."""
    mesh = mesh_of(words)
    world_size = math.prod(mesh.values())
    if target.world_size not in (1, world_size):
        cause = f"A mesh of {words} has {world_size} ranks, and the job {target.world_size}."
        raise UsageError(cause, "Leave --world-size out: the mesh says how many ranks there are.")
    check_rank(world_size, target.rank)
    return replace(target, mesh=mesh, world_size=world_size)


def budget_of(budget: str, device: str) -> int | None:
    """The bytes that PyTorch may reserve; None where neither is given. Raises UsageError where both are."""
    if budget and device:
        cause = "A budget and a device are two answers to the same question."
        raise UsageError(cause, "Give one of them.")
    if device:
        return device_of(device).budget_bytes
    return bytes_of(budget) if budget else None


def tolerance_of(words: str) -> float:
    """The share in "2%". Raises UsageError."""
    match = _SHARE.fullmatch(words.strip())
    if match is None:
        cause = f"A tolerance cannot be {words!r}."
        raise UsageError(cause, "Write a share in percent, such as 2%.")
    return float(match[1]) / 100
