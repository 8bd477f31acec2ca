"""The flags of settings, for the parser of any command."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from gputui.settings.load import checked
from gputui.settings.settings import Settings
from gputui.settings.table import SETTINGS


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
        setting.field: checked(setting, raw, setting.flag.name)
        for setting in SETTINGS
        if setting.flag and (raw := getattr(parsed, setting.field, None)) is not None
    }
    return settings._replace(**values)
