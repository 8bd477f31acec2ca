"""Reads owners' names in recordings and black boxes from before version 5 of the protocol, which had them as text."""

from __future__ import annotations

import re

from gputui.model.attached.owners import EXCEPTIONS, OwnerKind, OwnerName

_WORDS = {
    OwnerKind.RESULT: re.compile(r"result of (?P<start>.*)"),
    OwnerKind.ARGUMENT: re.compile(r"(?P<start>\w+) of (?P<of>\w+)"),
    OwnerKind.UNNAMED: re.compile(r"unnamed (?P<start>.*)"),
    OwnerKind.CYCLE: re.compile(r"A cycle of (?P<start>.*)"),
    OwnerKind.COPY: re.compile(r"(?P<start>.*) \((?P<of>\w+) copy\)"),
}
_OF_OPTIMIZERS = {
    OwnerKind.STATE: re.compile(r"(?P<start>.*?)\.state\[(?P<of>.*)\](?P<part>.*)"),
    OwnerKind.PARAM_GROUP: re.compile(r"(?P<start>.*?)(?P<part>\.param_groups\[.*)"),
}
_NOTED = re.compile(
    r"(?P<path>.*?) \("
    r"(?:(?P<exception>(?:\w+ )?exception(?= |,|\))[^()]*?)(?:, (?=[^,()]*:\d)|(?=\))))?"
    r"(?P<place>[^()]*)\)"
)


def owner_of_text(text: str) -> OwnerName:
    """The name whose text is `text`."""
    for kind, form in _WORDS.items():
        if found := form.fullmatch(text):
            return OwnerName(kind=kind.value, **found.groupdict())
    noted = _NOTED.fullmatch(text)
    path, place = (noted["path"], noted["place"]) if noted else (text, "")
    exception, holder = _exception(noted["exception"] or "") if noted else ("", "")
    for kind, form in _OF_OPTIMIZERS.items():
        if found := form.fullmatch(path):
            return OwnerName(place=place, kind=kind.value, exception=exception, holder=holder, **found.groupdict())
    return OwnerName(path, place, exception=exception, holder=holder)


def _exception(words: str) -> tuple[str, str]:
    """The key in `EXCEPTIONS` and the holder of an exception in words."""
    for key, text in EXCEPTIONS.items():
        if words == text:
            return key, ""
    for key in ("of_cell", "held"):  # "exception of X" also begins like "exception X"
        start = EXCEPTIONS[key].format(holder="")
        if words.startswith(start):
            return key, words.removeprefix(start)
    return "", ""
