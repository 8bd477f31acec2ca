"""Remapped keys: the settings file's [keys], checked against the actions that exist."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from gputui.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from gputui.settings.settings import Settings


class KeyChange(NamedTuple):
    """`action` gets `keys` in place of its own; `origin` is the file and line, for an error about it."""

    action: str
    keys: tuple[str, ...]
    origin: str


def keymap(settings: Settings, actions: Collection[str], is_key: Callable[[str], bool]) -> dict[str, str]:
    """Comma-separated keys by action, as Textual's `set_keymap` takes them.

    `actions` are those the program has. Raises `UsageError` for an unknown action or key.
    """
    for change in settings.keys:
        if change.action not in actions:
            cause = f"{change.origin}: there is no action {change.action!r}."
            raise UsageError(cause, did_you_mean(change.action, actions))
        for key in change.keys:
            if not is_key(key):
                cause = f"{change.origin}: there is no key {key!r}."
                raise UsageError(cause, "Keys are named like q, ctrl+g, f2, question_mark, pageup.")
    return {change.action: ",".join(change.keys) for change in settings.keys}
