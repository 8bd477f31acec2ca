"""What a terminal can show, as far as its environment says, and which signals end a program on it."""

from __future__ import annotations

import signal
from collections.abc import Mapping

CANNOT_SHOW = ("", "dumb", "unknown")
"""Values of TERM for terminals that cannot show a full-screen program."""

FEW_CHARACTERS = ("linux", "vt100", "vt220")
"""Values of TERM for terminals whose fonts lack eighth blocks: the Linux console has 256 or 512 characters."""

PLAIN_LOCALES = ("C", "POSIX")

ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals on which a full-screen program restores the terminal and exits with status 128 + signal."""

LAST_WORDS_S = 1.0
"""Seconds to wait at exit for a terminal that has stopped reading."""


def is_utf8(encoding: str) -> bool:
    """Whether `encoding` is UTF-8, however it is written."""
    return encoding.lower().replace("-", "").replace("_", "") == "utf8"


def draws_unicode(encoding: str, environment: Mapping[str, str]) -> bool:
    """Whether a terminal draws more than ASCII: it takes UTF-8, has the characters, and the locale is not plain C.

    Python treats the locale C as UTF-8 and sets LC_CTYPE (PEP 538), so only LC_ALL and LANG show what was asked for.
    """
    locale = environment.get("LC_ALL") or environment.get("LANG") or ""
    charset = locale.partition(".")[2].partition("@")[0]
    is_plain = locale in PLAIN_LOCALES or (charset and not is_utf8(charset))
    return is_utf8(encoding) and not is_plain and environment.get("TERM") not in FEW_CHARACTERS
