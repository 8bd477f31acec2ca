"""TOML: of the settings file, and of a project's pyproject.toml."""

from __future__ import annotations

import sys
from typing import Any

from gputui.errors import UsageError


def parsed_toml(text: str, path: str, remedy: str) -> dict[str, Any]:
    """The document in a text. Raises UsageError with the remedy where it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        cause = f"{path} is not TOML: {error}."
        raise UsageError(cause, remedy) from None
    return document
