"""What a terminal can show, as far as its environment tells, and what ends a program on it."""

from __future__ import annotations

import signal
from collections.abc import Mapping

CANNOT_SHOW = ("", "dumb", "unknown")
"""Values of TERM with which no full-screen program can be shown."""

FEW_CHARACTERS = ("linux", "vt100", "vt220")
"""Terminals whose fonts have no eighths of blocks: the Linux console has 256 or 512 characters."""

PLAIN_LOCALES = ("C", "POSIX")

ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that end a full-screen program in order, with the exit status 128 + signal."""

LAST_WORDS_S = 1.0
"""So long a terminal that takes no more bytes is waited for at the end."""


def is_utf8(encoding: str) -> bool:
    """Whether `encoding` is UTF-8, however it is written."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def draws_unicode(encoding: str, environment: Mapping[str, str]) -> bool:
    """Whether a terminal draws more than ASCII: it takes UTF-8, has the characters, and nobody asked for plain C.

    Python itself takes the locale C for UTF-8 and sets LC_CTYPE (PEP 538), so that only LC_ALL and LANG tell.
    """
    locale = environment.get("LC_ALL") or environment.get("LANG") or ""
    charset = locale.partition(".")[2].partition("@")[0]
    is_plain = locale in PLAIN_LOCALES or (charset and not is_utf8(charset))
    return is_utf8(encoding) and not is_plain and environment.get("TERM") not in FEW_CHARACTERS
