"""`gputui check`: what a step needs of a GPU that is not here, against a budget and a baseline."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gputui.commands.forecast import check_serving
from gputui.commands.parser import Parser, duration_of
from gputui.commands.printed.check import annotation, check_report, summary_page
from gputui.errors import GputuiError, UsageError
from gputui.explain.check.baseline import Baseline, baseline_of, baseline_text
from gputui.explain.check.checked import Checked, checked
from gputui.explain.check.devices import device_of
from gputui.explain.check.target import (
    Target,
    budget_of,
    check_rank,
    interpreter_of,
    over_mesh,
    program_of,
    target_of,
    tolerance_of,
)
from gputui.explain.check.variants import of_all_stages, tried
from gputui.explain.check.words import other_version
from gputui.explain.documents.check import check_document
from gputui.model.attached.trace import Rehearsal
from gputui.output import narrate, output_width, put, put_document
from gputui.settings import Settings
from gputui.sources.check_files import append_to, read_baselines, rows_of_project, write_baselines
from gputui.sources.rehearsal import Surroundings, rehearse, rehearse_program

PIPE_COLUMNS = 100
FAILS, UNKNOWN = 1, 2
"""Exit statuses: a step does not fit, or needs more than its baseline; it could not be told."""
DESCRIPTION = """Tell what a step of training needs of a GPU's memory without a GPU: FUNCTION returns a model, an
optimizer and a batch, and two steps of it are taken on tensors without data (see gputui whatif --help for the forms).
--run does the same with a script as it is, up to the third step of its optimizer. TARGET is such a function, or the
name of an entry of [[tool.gputui.check]] in pyproject.toml; without one, all entries are checked. An entry has the
keys function or run, name, arguments, settings, device or budget, tolerance, world_size or mesh, rank, tries."""
EPILOG = """exit status: 0 all fit, and none needs more than its baseline says; 1 one does; 2 it could not be told
  gputui check train:setup --budget 20GiB
  gputui check --device H100 --run train.py --batch-size 32
  gputui check --baseline gpu-memory.json --update     then commit the file
  gputui check --baseline gpu-memory.json              in CI
  gputui check vllm serve --help                       whether an inference server would start, and what fits"""


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Rehearse each target, print what it needs, and say by the exit status whether that is too much."""
    ours, program = _divided(arguments)
    if check_serving.is_of_server(ours):
        return check_serving.run(arguments)
    parsed = _parser().parse(ours)
    parsed.plan |= bool(parsed.tries)
    if parsed.update and not parsed.baseline:
        cause = "--update writes the baseline, and none is named."
        raise UsageError(cause, "Name the file: --baseline gpu-memory.json --update.")
    within_s = duration_of("--within", parsed.within)
    named = _targets(parsed.targets) if program is None else _of_program(program, parsed.targets)
    asked = [_with_options(target, parsed) for target in named]
    targets = asked if parsed.rank is not None else [one for target in asked for one in of_all_stages(target)]
    if parsed.plan and not all(target.budget_bytes for target in targets):
        cause = "A plan is for a device, and none is named."
        raise UsageError(cause, "Add --device H100, or --budget 20GiB.")
    before = read_baselines(parsed.baseline, must_exist=not parsed.update) if parsed.baseline else {}
    checks, problems = _check_all(targets, parsed, within_s, {} if parsed.update else before)
    if parsed.update and not problems:
        made = {check.target.name: baseline_of(check.peak) for check in checks}
        write_baselines(parsed.baseline, baseline_text({**before, **made}))
        narrate(f"{parsed.baseline} is written. Commit it.")
    _print(checks, problems, parsed, before)
    return UNKNOWN if problems else FAILS if any(check.fails for check in checks) else 0


def _divided(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """The words before --run, and the program behind it with its arguments: None without a --run."""
    for place, word in enumerate(arguments):
        name, _, program = word.partition("=")
        if name == "--run":
            return arguments[:place], [*([program] if program else []), *arguments[place + 1 :]]
    return arguments, None


def _parser() -> Parser:
    parser = Parser(
        prog="gputui check",
        usage="gputui check [TARGET]... [--budget SIZE|--device NAME] [--baseline FILE [--update]] [--plan]\n"
        "                    [--world-size N|--mesh NAME=N,... [--rank N]] [--try CHANGE]... [--json]\n"
        "                    [--run PROGRAM ARGUMENT...]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="MODULE:FUNCTION, or a name in pyproject.toml")
    parser.add_argument("--budget", metavar="SIZE", default="", help="what PyTorch may reserve, such as 20GiB")
    parser.add_argument("--device", metavar="NAME", default="", help="a GPU in place of a budget, such as H100")
    parser.add_argument("--set", metavar="NAME:VALUE", default="", help="settings, as in PYTORCH_ALLOC_CONF")
    parser.add_argument("--baseline", metavar="FILE", help="fail where a peak rises above this file's")
    parser.add_argument("--tolerance", metavar="SHARE", default="", help="by how much it may rise (default: 1%%)")
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--plan", action="store_true", help="also tell what would fit, the cheapest change first")
    parser.add_argument("--python", metavar="PATH", help="the Python with PyTorch, if it is not the one in the PATH")
    parser.add_argument("--world-size", metavar="N", type=int, help="rehearse one rank of a job of so many")
    parser.add_argument("--rank", metavar="N", type=int, help="which one (default: 0)")
    parser.add_argument("--mesh", metavar="NAME=N,...", default="", help="its ranks by dimension, such as dp=8,tp=8")
    parser.add_argument(
        "--try",
        metavar="CHANGE",
        dest="tries",
        action="append",
        default=[],
        help="a row of the plan: other arguments of the function or another mesh, as batch=16,tp=2; or more words "
        "for the program",
    )
    parser.add_argument("--within", metavar="TIME", default="10min", help="how long it may take (default: 10min)")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument("--run", metavar="PROGRAM", help="a script and its arguments in place of a target, as the last")
    return parser


def _targets(words: Sequence[str]) -> list[Target]:
    """The targets that are named, or all of the project's."""
    if words and all(":" in word for word in words):
        return [Target(word, word) for word in words]
    try:
        known = {target.name: target for target in map(target_of, rows_of_project())}
    except UsageError:
        _refuse_scripts(words)
        raise
    _refuse_scripts([word for word in words if word not in known])
    for word in words:
        if word not in known and ":" not in word:
            cause = f"pyproject.toml has no target {word!r} in [[tool.gputui.check]]."
            raise UsageError(cause, f"It has {', '.join(known)}.")
    return [known.get(word) or Target(word, word) for word in words] or list(known.values())


def _refuse_scripts(words: Sequence[str]) -> None:
    """Raise UsageError where a script was named like a function."""
    script = next((word for word in words if word.endswith(".py")), "")
    if script:
        cause, function = f"{script!r} is a script, not a function.", f"{Path(script).stem}:setup"
        raise UsageError(cause, f"Write gputui check --run {script}, or name a function of it: {function}.")


def _of_program(words: Sequence[str], others: Sequence[str]) -> list[Target]:
    """The program behind --run as a target."""
    if others:
        cause = f"--run is in the place of a target, and {others[0]} is one."
        raise UsageError(cause, "Check them one after the other.")
    return [Target(" ".join(words), program=program_of(words), python=interpreter_of(words))]


def _with_options(target: Target, parsed: argparse.Namespace) -> Target:
    """The target with what the command line says in place of the project's table."""
    if parsed.budget or parsed.device:
        device = device_of(parsed.device) if parsed.device else None
        target = replace(target, budget_bytes=budget_of(parsed.budget, parsed.device), device=device)
    if parsed.set:
        target = replace(target, settings=parsed.set)
    if parsed.mesh:
        target = over_mesh(replace(target, world_size=parsed.world_size or 1, rank=0), parsed.mesh)
    if parsed.world_size is not None or parsed.rank is not None:
        world_size = target.world_size if parsed.world_size is None else parsed.world_size
        check_rank(world_size, parsed.rank or 0)
        target = replace(target, world_size=world_size, rank=parsed.rank or 0)
    if parsed.tries:
        target = replace(target, tries=tuple(parsed.tries))
    return replace(target, tolerance=tolerance_of(parsed.tolerance)) if parsed.tolerance else target


def _check_all(
    targets: Sequence[Target], parsed: argparse.Namespace, within_s: float, baselines: Mapping[str, Baseline]
) -> tuple[list[Checked], list[str]]:
    """Check each target. One that raises becomes a sentence of the second list, and the others are still checked."""
    checks: list[Checked] = []
    problems: list[str] = []
    sent: dict[str, tuple[str, ...]] = {}
    for target in targets:
        sent = sent if target.stage else {}
        try:
            rehearsal = _rehearsed(target, target.name, parsed.python, within_s, sent.get(""))
            others = _others(target, parsed.python, within_s, problems, sent) if parsed.plan else []
            check = checked(target, rehearsal, baselines, with_plan=parsed.plan, tried=others)
            sent = {"": rehearsal.sent, **{other.name: made.sent for other, made in others}}
        except GputuiError as error:
            problems.append(f"{target.name}: {error}")
            sent = {}
            continue
        checks.append(check)
        if check.is_risen and check.is_of_another_torch:
            problems.append(other_version(check))
    return checks, problems


def _rehearsed(
    target: Target, name: str, python: str | None, within_s: float, received: tuple[str, ...] | None
) -> Rehearsal:
    """Two steps of a target; `received` is what the stage before sends, None where it failed or there is none."""
    if target.stage and received is None:
        cause = "It was not rehearsed: its input comes from the stage before, which failed."
        raise GputuiError(cause)
    narrate(f"Two steps of {name} run on tensors without data.")
    chosen = python or target.python or None
    where = Surroundings(chosen, target.device, target.world_size, target.rank, within_s, target.mesh, received or ())
    if target.program:
        return rehearse_program(target.program, where)
    return rehearse(target.function, target.arguments, where)


def _others(
    target: Target,
    python: str | None,
    within_s: float,
    problems: list[str],
    sent: Mapping[str, tuple[str, ...]],
) -> list[tuple[Target, Rehearsal]]:
    """Rehearse the plan's variants; `sent` has what the stage before sends, by variant. Failures go to `problems`."""
    found = (_other(target, words, python, within_s, problems, sent.get(words)) for words in target.tries)
    return [one for one in found if one is not None]


def _other(
    target: Target,
    words: str,
    python: str | None,
    within_s: float,
    problems: list[str],
    received: tuple[str, ...] | None,
) -> tuple[Target, Rehearsal] | None:
    try:
        other = tried(target, words)
        return other, _rehearsed(other, f"{target.name} with {words}", python, within_s, received)
    except GputuiError as error:
        problems.append(f"{target.name}, {words}: {error}")
        return None


def _print(
    checks: Sequence[Checked], problems: Sequence[str], parsed: argparse.Namespace, before: Mapping[str, Baseline]
) -> None:
    """Print the answers on standard output, and problems and doubts on standard error."""
    if parsed.json:
        put_document(check_document(checks, problems))
    else:
        report = partial(check_report, width=output_width(PIPE_COLUMNS))
        put("\n".join(map(report, checks)))
    for sentence in [*problems, *dict.fromkeys(doubt for check in checks for doubt in check.peak.doubts)]:
        narrate(sentence)
    is_compared = parsed.baseline is not None and not parsed.update
    for name in [check.target.name for check in checks if is_compared and check.target.name not in before]:
        narrate(f"{parsed.baseline} has nothing about {name}: add it with --update.")
    _tell_github(checks, has_annotations=not parsed.json)


def _tell_github(checks: Sequence[Checked], *, has_annotations: bool) -> None:
    """Print annotations, and append to the job's summary page, where the variables of GitHub's runner ask for them."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and has_annotations:
        put("".join(map(annotation, checks)))
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_to(page, summary_page(checks))
