"""Reads the stacks in a snapshot: frames of Python and of C++, and names that `gputui snapshot` writes as frames."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.tensors import Category
from gputui.protocol.trace_events import NOT_PYTHON
from gputui.sources.files.torch_snapshot.fields import Entry, FormatError, LeftOut, fail, integer, text

_CATEGORIES = {category.value: category for category in Category}
_OF_TORCH = re.compile(r"(.*/)?((site|dist)-packages|pytorch)/torch/.*", re.ASCII)
LONGEST_STACK = 10_000
"""Deeper than the deepest recursion that Python allows by default."""


class Frames:
    """Makes call sites of frames, one for each place in the program; knows frames by `id`: they must outlive it."""

    def __init__(self) -> None:
        self._site_of_frame: dict[int, CallSite | None] = {}
        self._sites: dict[tuple[str, int, str], CallSite] = {}
        self.left_out = LeftOut()

    def stack(self, frames: Sequence[Entry]) -> tuple[CallSite, ...]:
        """The Python frames of a stack, the innermost first as in the snapshot."""
        if len(frames) > LONGEST_STACK:
            fail("frames", frames)
        sites = self._site_of_frame
        for frame in frames:
            if id(frame) not in sites:
                sites[id(frame)] = self._site(frame)
        return tuple(site for frame in frames if (site := sites[id(frame)]) is not None)

    def _site(self, frame: Entry) -> CallSite | None:
        """A call site; None for a frame that is not Python's, or has an impossible value (then it is counted)."""
        file = text(frame, "filename")
        if NOT_PYTHON.fullmatch(file):
            return None
        try:
            key = (file, integer(frame, "line", 0), text(frame, "name"))
        except FormatError as error:
            self.left_out.add(error)
            return None
        return self._sites.setdefault(key, CallSite(*key))


def site_of(stack: Sequence[CallSite]) -> CallSite | None:
    """The line that asked for the memory: the innermost one outside PyTorch, or the innermost of all."""
    return next((site for site in stack if not _OF_TORCH.fullmatch(site.file)), stack[0] if stack else None)


def owner_in(stack: Sequence[CallSite]) -> tuple[Category, str] | None:
    """Category and name of a tensor, which `gputui snapshot` writes as the innermost frame; None in other stacks."""
    first = stack[0] if stack else None
    if first is None or first.line != 0 or first.file not in _CATEGORIES:
        return None
    return _CATEGORIES[first.file], first.function
