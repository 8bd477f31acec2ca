"""The benchmark of looks at real programs: its list of programs, its checks, and the table it prints."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import check, looks
from benchmarks.looks_table import TakenLook, Watch, as_markdown, as_text, figures_of, headings, row, worst_of

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((looks.FOLDER / "real").glob("*.py"))
SHARED = {"gpt2", "steps"}
OF_RANKS = {"ddp", "pipeline", "tensor_parallel"}
"""Only `benchmarks.check` runs them: fake devices have no collectives to watch."""
GIB = 2**30


def a_look(
    asked: str, pause_ms: float, named_share: float = 1.0, *, has_tensors: bool = True, share_of_peak: float = 0.5
) -> TakenLook:
    named_bytes = int(named_share * 10 * GIB)
    return TakenLook(asked, pause_ms, pause_ms + 1, has_tensors, named_bytes, 10 * GIB, share_of_peak)


AUTOMATIC = Watch(
    30.0,
    [
        a_look("attach", 90.0),
        *(a_look("change", pause_ms, share) for pause_ms, share in ((4.0, 1.0), (6.0, 0.9))),
        a_look("change", 5.0, share_of_peak=0.95),
        a_look("change", 1.0, 0.0, has_tensors=False),
    ],
)
BY_KEY = Watch(30.0, [a_look("attach", 116.0), a_look("change", 2.0, 0.0, has_tensors=False), a_look("key", 11.0)])
NOTHING = Watch(30.0, [a_look("attach", 70.0, 0.0, has_tensors=False)])


def test_the_table_lists_exactly_the_scripts() -> None:
    assert set(looks.PROGRAMS) == {path.stem for path in SCRIPTS} - SHARED - OF_RANKS


def test_the_peak_of_each_script_is_compared_with_what_is_told_before_it_runs() -> None:
    assert {case.script for case in check.CASES.values()} == {path.stem for path in SCRIPTS} - SHARED


@pytest.mark.parametrize("program", looks.PROGRAMS)
def test_a_program_has_a_main_function_and_runs_nothing_else_at_module_level(program: str) -> None:
    body = ast.parse(looks.path_of(program).read_text()).body
    kinds = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.Expr
    assert [type(statement) for statement in body if not isinstance(statement, kinds)] == [ast.If]
    assert "main" in {statement.name for statement in body if isinstance(statement, ast.FunctionDef)}


def test_the_dependency_group_has_every_package_of_the_programs() -> None:
    group = re.search(
        rf"^{looks.GROUP} = \[(.*?)\]", (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL
    )
    assert group is not None
    listed = set(re.findall(r'"(\w+)', group[1]))
    assert listed == {"torch"}.union(*looks.PROGRAMS.values())


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(looks.PROGRAMS, "lora", ("no_such_package",))
    with pytest.raises(SystemExit, match=r"no_such_package.* must be installed to run lora: .* --group real"):
        looks.check(sys.executable, ["lora"])


def test_an_unknown_program_is_refused_with_the_choices() -> None:
    with pytest.raises(SystemExit, match=r"no program trainr: choose from trainer, "):
        looks.check(sys.executable, ["trainr"])


def cells_of(*watches: Watch) -> list[str]:
    return row("lora", list(map(figures_of, watches)))


def test_a_row_has_the_figures_of_automatic_looks() -> None:
    assert cells_of(AUTOMATIC) == ["lora", "100 (90)", "95", "5.0 (6.0)", "33%", "6", "0.07%", "6.0", "90.0"]


def test_looks_by_key_stand_in_with_a_mark_and_add_nothing_to_the_share_of_time() -> None:
    assert cells_of(BY_KEY) == ["lora", "100 (100)*", "100*", "11.0 (11.0)*", "0%", "0", "0.01%", "12.0*", "116.0"]


def test_a_comparison_separates_the_commits_by_slashes_and_ends_with_ratios() -> None:
    cells = cells_of(AUTOMATIC, BY_KEY)
    assert cells[1:4] == ["100 (90) / 100 (100)*", "95 / 100*", "5.0 (6.0) / 11.0 (11.0)*"]
    assert cells[-1] == "0.50 (0.45)"
    assert len(cells) == len(headings(is_compared=True))


def test_a_program_without_named_tensors_has_no_figures_of_a_look() -> None:
    assert cells_of(NOTHING) == ["lora", "none (none)", "none", "none (none)", "0%", "0", "0.00%", "none", "70.0"]
    assert cells_of(AUTOMATIC, NOTHING)[-1] == "none (none)"


def test_the_worst_of_several_programs_is_the_worst_of_each_figure() -> None:
    cells = row("the worst", [worst_of(list(map(figures_of, (AUTOMATIC, BY_KEY, NOTHING))))])
    assert cells == ["the worst", "100 (90)*", "95*", "11.0 (11.0)*", "0%", "0", "0.07%", "12.0*", "116.0"]


def test_a_drawn_program_runs_with_its_seed() -> None:
    script, seed = looks.command_of(f"{looks.DRAWN}7")
    assert (Path(script).exists(), seed) == (True, "7")


SLOWED = """
import sys
from time import CLOCK_THREAD_CPUTIME_ID, clock_gettime

from gputui.probe.guards.originals import thread_time

spent_s, until_s = clock_gettime(CLOCK_THREAD_CPUTIME_ID), thread_time()
print(until_s > 2 * spent_s, "gputui.probe" in sys.modules)
"""


def test_a_slower_machine_has_the_probe_and_a_clock_that_runs_faster() -> None:
    variables = {**os.environ, **looks.preload(REPOSITORY, 3.0)}
    told = subprocess.run([sys.executable, "-c", SLOWED], env=variables, check=True, capture_output=True, text=True)
    assert told.stdout == "True True\n"


def test_a_share_is_rounded_down_so_that_only_everything_is_100_percent() -> None:
    nearly = Watch(30.0, [a_look("change", 1.0, 0.9999)] * 3)
    assert cells_of(nearly)[1] == "99.9 (99.9)"
    assert figures_of(nearly).named_median == pytest.approx(0.9999)


def test_both_tables_have_a_line_for_each_program() -> None:
    rows = [headings(is_compared=False), cells_of(AUTOMATIC), row("generation", [figures_of(BY_KEY)])]
    markdown, text = as_markdown(rows).splitlines(), as_text(rows).splitlines()
    assert [line.count("|") for line in markdown] == [10] * 4
    assert markdown[3].startswith("| generation | 100 (100)\\* |")
    assert len({len(line) for line in text}) == 1
