"""What holds of every black box, and of every program that has left one."""

from __future__ import annotations

import re

from gputui.model.attached.tensors import Category
from gputui.sources.files.black_box import BlackBox
from gputui.units import GIB, MIB
from tests.blackbox.conftest import PROGRAMS, Failed

NAMED = 0.99
NAMED_WITHOUT_SAVED = 0.85
"""The same of a framework before PyTorch 2.10, where tensors that only the graph keeps have no owner."""
SOURCE = (PROGRAMS / "failing.py").read_text().splitlines()
LOGGED_AT = re.compile(r"^(?=\[[A-Z]\d{4} )\S+ [\d:.]+ ")
LAST_LINE = "gputui: what held the GPU memory was kept. To see it: gputui open {0}"


def line_of(case: str) -> int:
    """The line on which a case fails."""
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# fails here: {case}"))


def check_sums(box: BlackBox, named: float = NAMED) -> dict[Category, int]:
    """Every allocated byte is in one category, and nearly all have an owner."""
    (device,) = (device for device in box.moment.devices if device.index == box.failure.device)
    assert device.layout is not None
    allocated = device.statistics.allocated_bytes
    assert sum(device.layout.by_category.values()) == allocated
    assert device.layout.by_category[Category.UNATTRIBUTED] <= (1 - named) * allocated
    assert device.layout.release.composition.reserved_bytes == device.statistics.reserved_bytes
    return dict(device.layout.by_category)


def requested_bytes_in(message: str) -> int:
    """The request as PyTorch's message has it."""
    size = re.search(r"Tried to allocate ([\d.]+) (MiB|GiB)", message)
    assert size is not None
    return round(float(size[1]) * {"MiB": MIB, "GiB": GIB}[size[2]])


def _without_time(line: str) -> str:
    """A line of PyTorch's log without its time: 2.14 logs each allocation that fails."""
    return LOGGED_AT.sub("", line)


def check_as_without(with_box: Failed, without: Failed) -> None:
    """Output, traceback and exit status are those of the program without the probe's black box."""
    last = [LAST_LINE.format(box) for box in with_box.boxes]
    lines = [line for line in with_box.errors.splitlines() if line not in last]
    assert list(map(_without_time, lines)) == list(map(_without_time, without.errors.splitlines()))
    assert (with_box.output, with_box.status) == (without.output, without.status)
