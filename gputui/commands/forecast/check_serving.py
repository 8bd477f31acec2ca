"""`gputui check vllm serve MODEL ...`: whether a server would start, and what would fit, told without a GPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from gputui.commands.parser import Parser
from gputui.commands.printed.check_serving import serving_report
from gputui.errors import UsageError
from gputui.explain.check.devices import device_of
from gputui.explain.documents.serving_ahead import start_document
from gputui.explain.serving.ahead.command_line import serve_flags
from gputui.explain.serving.ahead.device import Device, device_by_name
from gputui.explain.serving.ahead.estimates import Between
from gputui.explain.serving.ahead.start import Verdict, start_of
from gputui.explain.serving.ahead.words import other_flags
from gputui.explain.whatif.by_hand import bytes_of
from gputui.output import output_width, put, put_document
from gputui.sources.checkpoints import checkpoint_of
from gputui.units import GIB, MIB, format_bytes

PROGRAM, COMMAND = "vllm", "serve"
PIPE_COLUMNS = 100
EXIT_STATUSES = {Verdict.STARTS: 0, Verdict.REFUSES: 1, Verdict.NOT_SURE: 2}
OURS = {"--device": True, "--device-memory": True, "--json": False, "--help": False, "-h": False}
"""gputui's own options, which stand before `vllm` or among vLLM's flags, and whether each has a value."""
DESCRIPTION = """Tell without a GPU, and without vLLM, whether a server would start on a device, how its memory would
be divided, and how many tokens and requests its KV cache would hold. It reads the model's config.json and the sizes of
its weights, in a folder or in the cache of Hugging Face's hub; nothing is fetched. Write the flags of vLLM as you would
to start it."""
EPILOG = """exit status: 0 it starts; 1 it does not; 2 the estimates do not tell
  gputui check vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 32768 --device H100
  gputui check vllm serve ./model --tensor-parallel-size 2 --kv-cache-dtype fp8 --device A100-80GB"""


def is_of_server(arguments: list[str]) -> bool:
    """Whether the words before --run are of a server, perhaps after options of gputui's."""
    return PROGRAM in arguments


def run(arguments: list[str]) -> int:
    """Print what a server would have; the exit status says whether it starts."""
    at = arguments.index(PROGRAM)
    if arguments[at + 1 : at + 2] != [COMMAND]:
        cause = f"Of {PROGRAM}'s commands, {COMMAND} can be checked."
        raise UsageError(cause, f"Write: gputui check {PROGRAM} {COMMAND} MODEL --device H100")
    ours, theirs = _divided(arguments[at + 2 :])
    parsed = _parser().parse([*(word for word in arguments[:at] if word != "--"), *ours])
    flags = serve_flags(theirs)
    device = _device(parsed)
    checkpoint = checkpoint_of(flags.model, flags.revision or "", os.environ)
    has_second = os.environ.get("VLLM_USE_V2_MODEL_RUNNER") != "0"
    start = start_of(checkpoint, flags, device, has_second_runner=has_second)
    others = [
        (words, start_of(checkpoint, other, device, has_second_runner=has_second))
        for words, other in other_flags(start)
    ]
    if parsed.json:
        put_document(start_document(start, others))
    else:
        put(serving_report(start, others, output_width(PIPE_COLUMNS)))
    return EXIT_STATUSES[start.verdict]


def _divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that are gputui's options, and those that are vLLM's."""
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, sign, _ = word.partition("=")
        if name not in OURS:
            theirs.append(word)
            continue
        ours.append(word)
        if OURS[name] and not sign and rest:
            ours.append(rest.pop(0))
    return ours, theirs


def _parser() -> Parser:
    parser = Parser(
        prog="gputui check vllm serve",
        usage="gputui check vllm serve MODEL [vLLM's flags] --device NAME|--device-memory SIZE [--json]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--device", metavar="NAME", default="", help="the GPU, such as H100")
    parser.add_argument(
        "--device-memory", metavar="SIZE", default="", help="its memory as CUDA has it, such as 79.2GiB"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    return parser


def _device(parsed: argparse.Namespace) -> Device:
    """The GPU that is asked about. Raises UsageError without one, or with two."""
    if bool(parsed.device) == bool(parsed.device_memory):
        cause = "gputui check vllm serve needs a device, and one of them."
        raise UsageError(cause, "Add --device H100, or --device-memory 79.2GiB.")
    if parsed.device:
        known = device_of(parsed.device)
        return device_by_name(known.name, known.total_mib * MIB)
    size = bytes_of(parsed.device_memory)
    if size < GIB:
        cause = f"No GPU has {format_bytes(size)}."
        raise UsageError(cause, "Write its memory with the unit, such as --device-memory 79.2GiB.")
    return Device(f"GPU of {parsed.device_memory}", Between(size, size))
