"""The files of `gputui check`: the targets in a project's pyproject.toml, and the baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gputui.errors import GputuiError, UsageError
from gputui.explain.check.baseline import Baseline, baselines_of
from gputui.regular_files import small_content
from gputui.toml_text import parsed_toml

_MOST_BYTES = 1 << 24
PROJECT = "pyproject.toml"
EXAMPLE = '[[tool.gputui.check]] function = "train:setup" budget = "20GiB"'


def rows_of_project() -> list[Mapping[str, Any]]:
    """The entries of [[tool.gputui.check]] in the working folder's pyproject.toml. Raises UsageError for none."""
    try:
        text = small_content(PROJECT, _MOST_BYTES).decode(errors="replace")
    except OSError as error:
        cause = f"{PROJECT} cannot be read here: {error.strerror}."
        raise UsageError(cause, f"Name a function, such as train:setup, or write a table there: {EXAMPLE}") from None
    document = parsed_toml(text, PROJECT, "Its table for gputui begins with [[tool.gputui.check]].")
    tools = document.get("tool")
    ours = tools.get("gputui") if isinstance(tools, dict) else None
    rows = ours.get("check", []) if isinstance(ours, dict) else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
        cause = f"{PROJECT} has no list of tables [[tool.gputui.check]]."
        raise UsageError(cause, f"Name a function, such as train:setup, or write one there: {EXAMPLE}")
    return rows


def read_baselines(path: str, *, must_exist: bool) -> dict[str, Baseline]:
    """The baselines in a file, {} where it does not exist, unless it `must_exist`. Raises UsageError."""
    try:
        text = small_content(path, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        if not must_exist:
            return {}
        cause = f"There is no baseline {path}."
        raise UsageError(cause, "Make it with --update, and commit it.") from None
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise UsageError(cause, "Name a file with --baseline.") from None
    return baselines_of(text, path)


def write_baselines(path: str, text: str) -> None:
    """Replace the file as a whole: it never has only a part of the text."""
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}."
        raise GputuiError(cause, "Name a file elsewhere with --baseline.") from None


def append_to(path: str, text: str) -> None:
    """Append to a file that a CI system names, such as GitHub's summary of a job."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}."
        raise GputuiError(cause, "GITHUB_STEP_SUMMARY names it.") from None
