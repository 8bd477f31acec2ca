"""Reading the settings file: its path, its entries, and the line of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gputui.environment import CONFIG
from gputui.errors import UsageError
from gputui.regular_files import small_content

_MOST_BYTES = 1 << 20
EXAMPLE = 'A setting is a line such as: theme = "nord"'
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[=.]""")


class Entry(NamedTuple):
    """One name and its value in the file; `table` is "" at the top and "keys" under [keys]."""

    table: str
    name: str
    raw: Any
    origin: str


def settings_path(environment: Mapping[str, str]) -> str:
    """$GPUTUI_CONFIG, else gputui/config.toml in $XDG_CONFIG_HOME (default: ~/.config)."""
    if named := environment.get(CONFIG):
        return os.path.expanduser(named)
    base = environment.get("XDG_CONFIG_HOME", "")
    # The XDG specification: a relative path there is to be ignored.
    folder = base if base.startswith("/") else os.path.expanduser("~/.config")
    return f"{folder}/gputui/config.toml"


def shown_path(path: str) -> str:
    """`path` with the home folder as ~, for messages."""
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if home != "/" and path.startswith(f"{home}/") else path


def entries(path: str, *, is_named: bool) -> list[Entry]:
    """The entries of the file at `path`, in its order; none where there is no file and the user did not name one.

    Raises `UsageError` for a file that cannot be read or is not TOML.
    """
    try:
        text = small_content(path, _MOST_BYTES).decode()
    except FileNotFoundError:
        if not is_named:
            return []
        cause = f"{shown_path(path)}, which {CONFIG} names, does not exist."
        raise UsageError(cause, f"Create it, or unset {CONFIG}.") from None
    except UnicodeDecodeError:
        cause = f"The settings file {shown_path(path)} is not UTF-8 text."
        raise UsageError(cause, "Save it as UTF-8.") from None
    except OSError as error:
        cause = f"The settings file {shown_path(path)} cannot be read: {error.strerror}."
        raise UsageError(cause, f"Make it readable, or name another in {CONFIG}.") from None
    from gputui.toml_text import parsed_toml

    return list(_entries(parsed_toml(text, shown_path(path), EXAMPLE), text, shown_path(path)))


def _entries(document: dict[str, Any], text: str, path: str) -> Iterator[Entry]:
    lines = _lines(text)
    for name, raw in document.items():
        if isinstance(raw, dict):
            yield from (Entry(name, key, value, _origin(path, lines, name, key)) for key, value in raw.items())
            if not raw:
                yield Entry(name, "", {}, _origin(path, lines, name, ""))
        else:
            yield Entry("", name, raw, _origin(path, lines, "", name))


def _origin(path: str, lines: dict[tuple[str, str], int], table: str, name: str) -> str:
    number = lines.get((table, name)) or lines.get((table, "")) or lines.get(("", table))
    return f"{path}, line {number}" if number else path


def _lines(text: str) -> dict[tuple[str, str], int]:
    """The first line of each (table, name), which the TOML parser does not report; (table, "") is a table's heading."""
    first_lines: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TABLE.match(line):
            table = match[1].strip("\"'")
            first_lines.setdefault((table, ""), number)
        elif match := _KEY.match(line):
            first_lines.setdefault((table, match[1].strip("\"'")), number)
    return first_lines
