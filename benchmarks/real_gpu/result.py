"""What a part of the benchmark says: its figures, and what is not as gputui takes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Difference(NamedTuple):
    """`what` was taken for `assumed`, and is `found`; `is_time`: a clock says so, and a busy machine can be why."""

    what: str
    assumed: str
    found: str
    is_time: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.found} (assumed: {self.assumed})"


@dataclass
class Result:
    """`left_out` are sentences about what could not be done, or needed not."""

    figures: dict[str, object] = field(default_factory=dict)
    differs: list[Difference] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def expect(self, what: str, assumed: object, found: object, *, holds: bool | None = None) -> None:
        """Note a difference, unless both are equal or what is assumed `holds`."""
        if not (assumed == found if holds is None else holds):
            self.differs.append(Difference(what, str(assumed), str(found)))

    def expect_time(self, what: str, assumed: str, found: str, *, holds: bool) -> None:
        """The same of something that a clock says."""
        if not holds:
            self.differs.append(Difference(what, assumed, found, is_time=True))


class Size(NamedTuple):
    """The GPT, and how much is done: random `programs` in each configuration, `rounds` of windows of `window_s`, ...

    `loops` are watched for `steps_s`. With `is_forked` programs are forked where they can be, which saves their start.
    """

    layers: int
    width: int
    batch: int
    tokens: int
    nvml_rounds: int
    programs: int
    configurations: int
    rounds: int
    window_s: float
    watched_s: float
    steps_s: float
    loops: int = 2
    is_forked: bool = False

    @property
    def words(self) -> list[str]:
        """The arguments of the training."""
        return list(map(str, (self.layers, self.width, self.batch, self.tokens)))


MEDIUM_BYTES = 24 << 30
"""Where less of the device is free, the GPT is small."""

SIZES = {
    "medium": Size(24, 1024, 8, 1024, 30, 3, 8, 8, 4.0, 15.0, 60.0),
    "small": Size(6, 512, 8, 512, 30, 3, 8, 8, 4.0, 15.0, 60.0),
    "brief": Size(2, 64, 2, 64, 2, 1, 1, 1, 0.1, 0.0, 0.0, loops=1, is_forked=True),
}
