"""Takes out of a document what says whose machine it is from: host and user names, folders, PIDs and UUIDs."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable
from typing import Any

FOLDERS = re.compile(r"(?<![\w.])(?:/[\w.@+~:-]+)+/(?=[\w.<>@+~-])")
"""An absolute path but for its last part."""
PIDS = re.compile(r"\b(process|processes|PID|pid|attach|kill)( (?:-\w+ )?)\d+", re.IGNORECASE)
UUIDS = re.compile(r"\b((?:GPU|MIG)-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
SHORTEST = 2
"""A letter alone is no name that tells."""


def without_names(document: Any, names: Callable[[], list[str]] | None = None) -> Any:  # noqa: ANN401 - any JSON
    """The same document with every text in it without names; its keys are the benchmark's own words."""
    whose = sorted((names or _names)(), key=len, reverse=True)
    patterns = [re.compile(rf"(?<![\w]){re.escape(name)}(?![\w])") for name in whose if len(name) >= SHORTEST]

    def of_text(text: str) -> str:
        text = PIDS.sub(r"\1\2N", UUIDS.sub("UUID", FOLDERS.sub("", text)))
        for pattern in patterns:
            text = pattern.sub("NAME", text)
        return text

    def of(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, dict):
            return {key: of(inner) for key, inner in value.items()}
        return [of(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return of(document)


def _names() -> list[str]:
    """Those of this host and of the user, who may have none."""
    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return [host, host.partition(".")[0], user]
