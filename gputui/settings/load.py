"""Loads the settings from the file and the environment, and overrides them with flags."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from gputui.environment import CONFIG
from gputui.errors import UsageError, did_you_mean
from gputui.settings.file import Entry, entries, settings_path
from gputui.settings.forms import WrongValueError
from gputui.settings.settings import DEFAULTS, KeyChange, Settings
from gputui.settings.table import BY_NAME, SETTINGS, Setting

_KEYS_TABLE = "keys"


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of the file, overridden by those of the environment (default: the process's own).

    Raises `UsageError`, which names the file and line or the variable, for anything unknown or invalid.
    """
    environment = os.environ if environment is None else environment
    path = settings_path(environment)
    file_entries = entries(path, is_named=bool(environment.get(CONFIG)))
    values = _from_file(file_entries) | _from_environment(environment)
    return DEFAULTS._replace(**values, keys=_key_changes(file_entries))


def add_flags(parser: ArgumentParser) -> None:
    """Add the flag of each setting that has one to `parser`, in a group of their own."""
    group = parser.add_argument_group("settings")
    for setting in SETTINGS:
        flag = setting.flag
        if flag is None:
            continue
        if flag.metavar:
            group.add_argument(flag.name, dest=setting.field, metavar=flag.metavar, help=flag.help)
        else:
            group.add_argument(
                flag.name, dest=setting.field, action="store_const", const=flag.means, default=None, help=flag.help
            )


def apply_flags(settings: Settings, parsed: Namespace) -> Settings:
    """`settings`, overridden by the parsed flags. Raises `UsageError` for an invalid value."""
    values = {
        setting.field: _checked(setting, raw, setting.flag.name)
        for setting in SETTINGS
        if setting.flag and (raw := getattr(parsed, setting.field, None)) is not None
    }
    return settings._replace(**values)


def _checked(setting: Setting, raw: object, origin: str) -> Any:  # noqa: ANN401 - as many types as there are forms
    """The checked value of `setting`. The `UsageError` for an invalid one begins with `origin`."""
    try:
        return setting.form(raw)
    except WrongValueError as error:
        cause = f"{origin} should be {error.expected}, not {raw!r}."
        raise UsageError(cause, error.remedy) from None


def _from_file(file_entries: Iterable[Entry]) -> dict[str, Any]:
    values = {}
    for entry in file_entries:
        if entry.table == _KEYS_TABLE:
            continue
        if entry.table:
            cause = f"{entry.origin}: there is no table [{entry.table}]."
            raise UsageError(cause, f"Settings go at the top of the file, keys under [{_KEYS_TABLE}].")
        if entry.name not in BY_NAME:
            cause = f"{entry.origin}: there is no setting {entry.name!r}."
            raise UsageError(cause, did_you_mean(entry.name, BY_NAME) or f"There are: {', '.join(BY_NAME)}.")
        setting = BY_NAME[entry.name]
        values[setting.field] = _checked(setting, entry.raw, f"{entry.origin}: {entry.name}")
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings by field. GPUTUI_COLOR overrides NO_COLOR (no-color.org: set and not empty), which is less specific."""
    values: dict[str, Any] = {"color": "none"} if environment.get("NO_COLOR") else {}
    for setting in SETTINGS:
        if raw := environment.get(setting.variable):
            values[setting.field] = _checked(setting, raw, setting.variable)
    return values


def _key_changes(file_entries: Iterable[Entry]) -> tuple[KeyChange, ...]:
    return tuple(_key_change(entry) for entry in file_entries if entry.table == _KEYS_TABLE and entry.name)


def _key_change(entry: Entry) -> KeyChange:
    keys = entry.raw if isinstance(entry.raw, list) else [entry.raw]
    if not keys or not all(isinstance(key, str) and key.strip() for key in keys):
        cause = f"{entry.origin}: {entry.name} should be a key or a list of keys, not {entry.raw!r}."
        raise UsageError(cause, f'Write it as: {entry.name} = ["q", "ctrl+q"]')
    return KeyChange(entry.name, tuple(key.strip() for key in keys), entry.origin)
