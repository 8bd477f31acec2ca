"""Tells which values in command lines and environments are secrets, and masks them."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "••••••"

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:AUTHORIZATION|BEARER|COOKIES?|PAT|DSN)$|_(?:PWD|AUTH)$"
    r"|(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|PRIVATE_KEY)S?(?:_|$)"
)
_KEY_NAME = re.compile(r"(?:^|_)PASS$|(?:KEY|TOKEN)S?(?:_(?:ID|B64|BASE64|HEX|JSON|VALUE|\d+))?$|(?:^|_)(?:KEY|TOKEN)_")
"""Names of keys and tokens. In training programs they may also be counts (`--max-tokens 512`): see `_PLAIN_VALUE`."""
_PLAIN_VALUE = re.compile(r"[+-]?\d{0,9}(?:\.\d*)?(?:e[+-]?\d+)?|true|false|none|null|yes|no|on|off", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+@")
_KNOWN_FORMS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[opsu]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|AKIA[A-Z0-9]{12,}|xox[abp]-[\w-]{10,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_OPTION = re.compile(r"(--?)?([A-Za-z][\w.\-]*)(=)(.*)", re.DOTALL)


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable or option called `name` is a secret."""
    if not value:
        return False
    plain = re.sub(r"[^A-Z0-9]+", "_", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).upper()).strip("_")
    if _SECRET_NAME.search(plain):
        return True
    return _KEY_NAME.search(plain) is not None and _PLAIN_VALUE.fullmatch(value) is None


def mask_value(name: str, value: str) -> str:
    """The value of a variable or option called `name`, with its secret parts masked."""
    return MASK if is_secret(name, value) else _mask_forms(value)


def mask_command(command: str) -> str:
    """A command line (arguments joined with spaces) with its secrets masked."""
    return " ".join(mask_arguments(command.split(" ")))


def mask_arguments(arguments: Iterable[str]) -> list[str]:
    """Arguments with masked secrets, as in `--api-key=...`, `--api-key ...`, `api_key=...`, `https://ana:...@host`."""
    masked: list[str] = []
    option = ""
    for argument in arguments:
        if option and not argument.startswith("-"):
            masked.append(mask_value(option, argument))
            option = ""
            continue
        match = _OPTION.fullmatch(argument)
        option = argument if match is None and argument.startswith("-") else ""
        masked.append(_mask_forms(argument) if match is None else _masked_option(match))
    return masked


def _masked_option(match: re.Match[str]) -> str:
    dashes, name, sign, value = match[1] or "", match[2], match[3], match[4]
    return f"{dashes}{name}{sign}{mask_value(name, value)}"


def _mask_forms(text: str) -> str:
    text = _IN_URL.sub(rf"\1:{MASK}@", text) if "://" in text else text
    return _KNOWN_FORMS.sub(MASK, text)
