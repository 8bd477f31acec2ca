"""After climbs in vain, looks save the time for a while, unless much more memory is without a name by then."""

from __future__ import annotations

from gputui.probe.names.climb import FRUITLESS, LONGEST_REST, Climb

UNNAMED = {0x1000: 1 << 20, 0x2000: 1 << 20}


def looks_without_a_climb(climb: Climb) -> int:
    """How many looks in turn do not climb, though memory has no name."""
    for looks in range(2 * LONGEST_REST):
        climb.note_unnamed(UNNAMED)
        if climb.unnamed_bytes:
            return looks
    raise AssertionError("no look climbs any more")


def fruitless(times: int) -> Climb:
    climb = Climb()
    for _ in range(times):
        climb._rest = 0
        climb.note_unnamed(UNNAMED)
        climb._fruitless_bytes = climb.unnamed_bytes  # as where a climb begins
        climb.note_end(is_fruitful=False)
    return climb


def test_the_rest_becomes_longer_and_ends() -> None:
    rests = [looks_without_a_climb(fruitless(times)) for times in range(1, 12)]
    assert rests[: FRUITLESS - 1] == [0] * (FRUITLESS - 1)
    assert rests[FRUITLESS - 1 : FRUITLESS + 3] == [2, 4, 8, 16]
    assert max(rests) == LONGEST_REST


def test_much_more_memory_without_a_name_ends_it() -> None:
    climb = fruitless(FRUITLESS)
    climb.note_unnamed({**UNNAMED, 0x3000: 2 << 20})
    assert climb.unnamed_bytes == 4 << 20


def test_a_climb_that_found_something_ends_it() -> None:
    climb = fruitless(FRUITLESS)
    climb.note_end(is_fruitful=True)
    assert looks_without_a_climb(climb) == 0
