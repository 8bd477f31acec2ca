"""The documentation matches the program: settings, variables, links, and the README's two commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputui import environment
from gputui.settings.settings import COLORS, DEFAULTS, GRAPHS, PROCESS_COLUMNS, SORTS, THEMES
from gputui.settings.table import SETTINGS, Setting

REPOSITORY = Path(__file__).resolve().parent.parent
SETTINGS_PAGE = (REPOSITORY / "docs" / "settings.md").read_text()
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")])
COMMANDS = (
    "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/gputui",
    (
        "python3 -m venv .venv && .venv/bin/pip install -U pip && .venv/bin/pip install -e . --group test"
        " && .venv/bin/pytest"
    ),
)


def rows(header: str) -> dict[str, list[str]]:
    """The rows of the settings page's table that begins with `header`, by first cell, without backquotes."""
    table = SETTINGS_PAGE.split(f"\n{header}", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table]
    return {first: rest for first, *rest in cells}


def test_the_settings_page_lists_exactly_the_settings() -> None:
    assert list(rows("| setting |")) == [setting.name for setting in SETTINGS]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_settings_row_has_its_variable_flag_and_default(setting: Setting) -> None:
    variable, flag, default, _ = rows("| setting |")[setting.name]
    assert (variable, flag) == (setting.variable, setting.flag.name if setting.flag else "")
    assert setting.form(default) == getattr(DEFAULTS, setting.field)


def test_the_settings_page_lists_every_allowed_word() -> None:
    words = {*COLORS, *GRAPHS, *PROCESS_COLUMNS, *SORTS, *THEMES}
    assert words - set(re.findall(r"[\w-]+", SETTINGS_PAGE)) == set()


def test_the_page_lists_exactly_the_variables_that_are_not_settings() -> None:
    assert {name: meaning for name, (meaning,) in rows("| variable |").items()} == environment.OF_NO_SETTING


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_a_target(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text())
    assert [(path, anchor) for path, anchor in targets if not has_target(page, path, anchor)] == []


def has_target(page: Path, path: str, anchor: str) -> bool:
    target = page.parent / path if path else page
    if not target.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE) if anchor else []
    return not anchor or anchor in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "gputui/probe/README.md"])
def test_files_of_the_code_that_a_page_names_are_there(page: str) -> None:
    named = re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?)`", (REPOSITORY / page).read_text())
    folders = (REPOSITORY, REPOSITORY / "gputui", REPOSITORY / "tests", (REPOSITORY / page).parent)
    wanting = {n for n in named if "NAME" not in n and not any((folder / n).exists() for folder in folders)}
    assert wanting == set()


def test_the_readme_has_each_command_on_a_single_line() -> None:
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert [line.strip() for line in lines if line.startswith("    python3 -m venv")] == list(COMMANDS)
