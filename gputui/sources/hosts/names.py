"""Reads which nodes are meant: names with commas between them, and files with names, such as a hostfile of MPI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gputui.errors import UsageError
from gputui.model.nodes import can_be_node
from gputui.regular_files import small_content

AT_MOST = 512
"""Each node takes an ssh and two threads; who has more nodes has a Prometheus."""
_MOST_BYTES = 1 << 20
_FORM = "Use --hosts node1,node2 or --hosts @FILE, with a name on each line; ssh has to know the names."


def nodes_of(words: Iterable[str]) -> tuple[str, ...]:
    """The nodes that the words name, each once; a word is NAME,NAME or @FILE. Raises `UsageError`."""
    names = tuple(dict.fromkeys(name for word in words for name in _names(word)))
    if not names:
        cause = "--hosts names no node."
        raise UsageError(cause, _FORM)
    if len(names) > AT_MOST:
        cause = f"--hosts names {len(names)} nodes, and gputui keeps an ssh to {AT_MOST} at most."
        raise UsageError(cause, "A Prometheus serves more: gputui fleet --prometheus URL.")
    for name in names:
        if not can_be_node(name):
            cause = f"{name!r} is not the name of a machine."
            raise UsageError(cause, _FORM)
    return names


def _names(word: str) -> Iterator[str]:
    if word.startswith("@"):
        yield from _in_file(word[1:])
    else:
        yield from filter(None, word.split(","))


def _in_file(path: str) -> Iterator[str]:
    """The first word of each line, without a port or slots: MPI's hostfiles have the slots there or behind it."""
    try:
        text = small_content(path, _MOST_BYTES).decode(errors="replace")
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise UsageError(cause, _FORM) from None
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield words[0].partition(":")[0] if words[0].count(":") == 1 else words[0]
