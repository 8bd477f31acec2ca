"""Remapped keys: the settings file's [keys], checked against the actions that exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from gputui.errors import UsageError, did_you_mean
from gputui.settings.settings import KeyChange, Settings


def keymap(
    settings: Settings,
    defaults: Mapping[str, Collection[str]],
    key_name: Callable[[str], str],
    scopes: Iterable[Collection[str]] = (),
) -> dict[str, str]:
    """Comma-separated keys by action, as Textual's `set_keymap` takes them.

    `defaults` are the actions that the program has with their own keys, `key_name` returns the one name of a key that
    has several, or "" if there is no such key. `scopes` are the actions that can be reached from the same screen.
    Raises `UsageError` for an unknown action or key, and for a key that another action of the same screen has.
    """
    for change in settings.keys:
        if change.action not in defaults:
            cause = f"{change.origin}: there is no action {change.action!r}."
            raise UsageError(cause, did_you_mean(change.action, defaults))
        for key in change.keys:
            if not key_name(key):
                cause = f"{change.origin}: there is no key {key!r}."
                raise UsageError(cause, "Keys are named like q, ctrl+g, f2, question_mark, comma, space, pageup.")
    for scope in scopes:
        of_scope = {action: defaults[action] for action in sorted(scope) if action in defaults}
        _refuse_doubles(settings.keys, of_scope, key_name)
    return {change.action: ",".join(change.keys) for change in settings.keys}


def _refuse_doubles(
    changes: Iterable[KeyChange], defaults: Mapping[str, Collection[str]], key_name: Callable[[str], str]
) -> None:
    """Refuse one key for two actions of a scope, unless both have it by default; `defaults` are its keys by action."""
    within = [change for change in changes if change.action in defaults]
    changed = {change.action for change in within}
    taken = [(key, action) for action, keys in defaults.items() if action not in changed for key in keys]
    for change in within:
        for key in change.keys:
            name = key_name(key)
            others = (action for other, action in taken if other == name and action != change.action)
            double = next((other for other in others if other in changed or name not in defaults[change.action]), None)
            if double:
                cause = f"{change.origin}: the key {key!r} is already that of {double!r}, on the same screen."
                raise UsageError(cause, f"Give {change.action!r} another key, or {double!r}.")
        taken += [(key_name(key), change.action) for key in change.keys]
