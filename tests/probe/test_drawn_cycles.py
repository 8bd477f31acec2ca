"""What `gc.collect()` is said to free is what it then frees, to the byte, in drawn programs of cycles."""

from __future__ import annotations

import pytest

from tests.scale import sized

PROGRAMS = sized(20, 200)


@pytest.mark.long
def test_a_collection_frees_what_was_said(run_program, record_property):
    record_property("count", f"{PROGRAMS} programs")
    programs = run_program("drawn_cycles.py", "0", str(PROGRAMS))["programs"]
    assert len(programs) == PROGRAMS
    assert [program for program in programs if not _is_right(program)] == []
    assert sum(program["freed"] > 0 for program in programs) > PROGRAMS / 2


def test_objects_that_are_freed_between_two_parts_do_not_begin_it_again(run_program):
    met = run_program("freed_meanwhile.py")
    assert met["freed"] > 10
    assert (met["is_broken"], met["unread"], set(met["times"])) == (False, 0, {1})


def _is_right(program: dict) -> bool:
    is_whole = not program.get("error") and program["whole"] and program["untouched"]
    is_met = program["said"] == program["freed"] or (program["is_least"] and program["said"] < program["freed"])
    return is_whole and is_met
