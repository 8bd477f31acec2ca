"""The program that a command line runs, named so that people recognise it: the script or module first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gputui.model.machine.secrets import mask_command

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[tdw]?|ipython\d?")
_SHELL = re.compile(r"-?(?:ba|da|z|k|fi)?sh")
_OPTIONS_WITH_VALUE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*[WX]|--check-hash-based-pycs")
_MODULE = re.compile(r"-[bBdEiIOPqRsSuvx]*m")
_CODE = re.compile(r"-[bBdEiIOPqRsSuvx]*c")
_NO_OPTIONS = {"-", "--"}
_NOT_SIMPLE = re.compile(r"[;&|<>$`()]|^\s*\w+=")
_DEPTH_AT_MOST = 4


class _Launcher(NamedTuple):
    """A program that starts another one: `words` come before its options, and `flags` are options without a value.

    With a `module_flag` the program is a module: `torchrun -m package.train`.
    """

    shown: str
    words: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    module_flag: frozenset[str] = frozenset({"-m", "--module"})


_TORCHRUN = _Launcher(
    "torchrun", flags=frozenset({"--standalone", "--no-python", "--no_python", "--run-path", "--run_path"})
)
_ACCELERATE_FLAGS = frozenset(
    {"--cpu", "--multi_gpu", "--tpu", "--ipex", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--debug", "-q"}
    | {"--quiet", "--no_python", "--same_network", "--enable_cpu_affinity", "--use_tp", "--use_xla", "--tpu_use_sudo"}
)
_DEEPSPEED_FLAGS = frozenset(
    {"--no_python", "--no_local_rank", "--force_multi", "--enable_elastic_training", "--bind_cores_to_rank", "--no_ssh"}
)

_LAUNCHERS: dict[str, _Launcher] = {
    "torchrun": _TORCHRUN,
    "torch.distributed.run": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN._replace(flags=_TORCHRUN.flags | {"--use-env", "--use_env"}),
    "accelerate": _Launcher("accelerate launch", ("launch",), _ACCELERATE_FLAGS),
    "accelerate-launch": _Launcher("accelerate launch", (), _ACCELERATE_FLAGS),
    "accelerate.commands.launch": _Launcher("accelerate launch", (), _ACCELERATE_FLAGS),
    "deepspeed": _Launcher("deepspeed", (), _DEEPSPEED_FLAGS, frozenset({"--module"})),
    "deepspeed.launcher.launch": _Launcher("deepspeed", (), _DEEPSPEED_FLAGS, frozenset({"--module"})),
    "gputui": _Launcher("gputui run", ("run",)),
    "uv": _Launcher("uv run", ("run",), frozenset({"-q", "-v", "--frozen", "--locked", "--no-sync", "--isolated"})),
    "conda": _Launcher("conda run", ("run",), frozenset({"--no-capture-output", "--live-stream", "-v"})),
    "mamba": _Launcher("mamba run", ("run",), frozenset({"--no-capture-output", "--live-stream", "-v"})),
    "poetry": _Launcher("poetry run", ("run",)),
    "coverage": _Launcher("coverage run", ("run",), frozenset({"-p", "-a", "--branch"})),
    "cProfile": _Launcher("cProfile"),
    "pdb": _Launcher("pdb"),
    "nsys": _Launcher("nsys profile", ("profile",)),
    "sudo": _Launcher("sudo", flags=frozenset({"-E", "-H", "-n", "-b", "-i", "--preserve-env"})),
    "srun": _Launcher("srun"),
}
"""Launchers by the name of the program, or of the module after `python -m`."""


@lru_cache(4096)
def program_of(command: str) -> str:
    """The program that a command line (arguments joined with spaces) runs, with its arguments, secrets masked.

    `/opt/conda/bin/python -u /home/ana/train.py --lr 1` is "train.py --lr 1". The launcher comes last:
    `torchrun --nproc-per-node 8 train.py` is "train.py (torchrun)". A title that the program gave itself, and anything
    that is not understood, stays as it is, but for the folders before its first word.
    """
    return mask_command(_program(command, 0))


def _program(command: str, depth: int) -> str:
    words = command.split(" ")
    if not command.strip() or command.startswith(("[", "(")) or depth > _DEPTH_AT_MOST:
        return command
    name, arguments = _base(words[0]), words[1:]
    if _PYTHON.fullmatch(name):
        return _python(name, arguments, depth)
    if _SHELL.fullmatch(name):
        return _shell(name, arguments, depth)
    return _started(name, arguments, depth) or " ".join((_base(words[0]), *arguments))


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _python(name: str, arguments: Sequence[str], depth: int) -> str:
    place = 0
    while place < len(arguments) and arguments[place].startswith("-") and arguments[place] not in _NO_OPTIONS:
        option = arguments[place]
        if _MODULE.fullmatch(option) and place + 1 < len(arguments):
            module, *rest = arguments[place + 1 :]
            return _started(module, rest, depth) or " ".join((module, *rest))
        if _CODE.fullmatch(option):
            return " ".join((name, "-c", *arguments[place + 1 :]))
        place += 2 if _OPTIONS_WITH_VALUE.fullmatch(option) else 1
    if place >= len(arguments) or arguments[place] in _NO_OPTIONS:
        return " ".join((name, *arguments))
    script, *rest = arguments[place:]
    return _started(_base(script), rest, depth) or " ".join((_base(script), *rest))


def _shell(name: str, arguments: Sequence[str], depth: int) -> str:
    place = next((place for place, word in enumerate(arguments) if not word.startswith(("-", "+"))), None)
    if place is None:
        return " ".join((name, *arguments))
    options, rest = arguments[:place], arguments[place:]
    if not any(option[1:].isalpha() and option.endswith("c") for option in options):
        return " ".join((_base(rest[0]), *rest[1:]))
    code = " ".join(rest)
    inner = code if _NOT_SIMPLE.search(code) else _program(code, depth + 1)
    return f"{inner} ({name} -c)"


def _started(name: str, arguments: Sequence[str], depth: int) -> str | None:
    """The program that a launcher starts, and the launcher behind it; None for another `name`, or deep in launchers."""
    launcher = _LAUNCHERS.get(name) if depth <= _DEPTH_AT_MOST else None
    if launcher is None or tuple(arguments[: len(launcher.words)]) != launcher.words:
        return None
    rest = arguments[len(launcher.words) :]
    start = _first_program(launcher, rest)
    if start is None:
        return None
    place, is_module = start
    if is_module:
        module, *behind = rest[place:]
        inner = _started(module, behind, depth + 1) or " ".join((module, *behind))
    else:
        inner = _program(" ".join(rest[place:]), depth + 1)
    return f"{inner} ({launcher.shown})"


def _first_program(launcher: _Launcher, arguments: Sequence[str]) -> tuple[int, bool] | None:
    """Where the program stands among a launcher's arguments, and whether it is a module.

    An option that is not known to be a flag takes the next word as its value, unless that is a Python script.
    """
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word == "--":
            place += 1
            return (place, False) if place < len(arguments) else None
        if not word.startswith("-"):
            return place, False
        if word in launcher.module_flag and place + 1 < len(arguments):
            return place + 1, True
        takes_value = "=" not in word and word not in launcher.flags
        follows = arguments[place + 1] if place + 1 < len(arguments) else ""
        place += 2 if takes_value and not follows.startswith("-") and not follows.endswith(".py") else 1
    return None


SERVERS = ("vllm", "sglang")


def is_of_server(command: str) -> bool:
    """Whether a command line, or the title of a process, may be that of an inference server with metrics of its own."""
    return any(name in command.lower() for name in SERVERS)
