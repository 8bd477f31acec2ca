"""Out-of-memory errors of real programs: what the black box says of them, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.explain.failure.analysis import analysis_of
from gputui.explain.failure.sentences import headline, place_sentences
from gputui.model.attached.failure import Phase
from gputui.model.attached.tensors import Category
from gputui.model.reading import value_of
from gputui.sources.files.black_box import read
from gputui.units import GIB, MIB
from tests.attach.children import words_of_gputui
from tests.blackbox.checks import LAST_LINE, check_as_without, check_sums, line_of, requested_bytes_in
from tests.blackbox.conftest import Fail, Failed

CASES = {
    "forward": ("forward", Phase.FORWARD, Category.ACTIVATION, "forward"),
    "limit": ("limit", Phase.FORWARD, Category.ACTIVATION, "forward"),
    "backward": ("backward", Phase.BACKWARD, Category.OTHER, "step"),
    "optimizer": ("optimizer", Phase.OPTIMIZER, Category.OTHER, "step"),
    "a DataLoader's pinning": ("pinning", Phase.UNKNOWN, Category.OTHER, "pin_memory"),
}


@pytest.mark.every_torch
@pytest.mark.parametrize("name", CASES)
def test_the_box_has_the_request_its_place_and_every_allocated_byte(fail: Fail, name: str) -> None:
    case, phase, largest, function = CASES[name]
    ended = fail("failing.py", case)
    box = ended.box
    sums = check_sums(box)
    analysis = analysis_of(box.moment)
    assert ended.status == 1
    assert ended.errors.splitlines()[-1] == LAST_LINE.format(ended.boxes[0])
    assert analysis is not None
    assert analysis.place is not None
    line = line_of("forward" if case == "limit" else case)
    assert (analysis.place.line, analysis.place.function) == (line, function)
    assert (box.failure.requested_bytes, analysis.phase) == (requested_bytes_in(box.failure.message), phase)
    assert max(sums, key=lambda category: sums[category]) is largest
    assert (box.failure.allowed_bytes is not None) == (case == "limit")
    assert box.failure.requested_bytes == analysis.usable_free_bytes + analysis.short_bytes
    assert box.failure.backward_node.endswith("Backward0") == (case == "backward")
    assert box.failure.thread.startswith("pt_autograd") == (case == "backward")
    check_as_without(ended, fail("failing.py", case, folder=""))


@pytest.mark.place
@pytest.mark.every_torch
def test_an_error_during_a_capture_leaves_captures_possible(fail: Fail) -> None:
    ended = fail("failing.py", "capture")
    box = ended.box
    assert (ended.status, ended.output.splitlines()[-1]) == (0, "captured (1024, 4096)")
    assert words_of_gputui(ended.errors) == []  # the error did not end the program
    assert box.failure.is_capturing
    assert (box.failure.message, box.failure.requested_bytes) == ("", requested_bytes_in(ended.output))
    assert (line_of("capture"), "capture") in {(site.line, site.function) for site in box.failure.stack}
    check_sums(box)
    check_as_without(ended, fail("failing.py", "capture", folder=""))


def test_a_reraised_error_names_the_file_too(fail: Fail) -> None:
    ended = fail("failing.py", "reraised")
    assert ended.errors.splitlines()[-2:] == ["ValueError: training failed", LAST_LINE.format(ended.boxes[0])]
    check_as_without(ended, fail("failing.py", "reraised", folder=""))


def test_the_first_and_the_last_errors_of_a_program_are_kept(fail: Fail) -> None:
    ended = fail("failing.py", "finder")
    errors = int(ended.output.split()[1])
    assert errors > 6
    numbers = [read(path).failure.number for path in ended.boxes]
    assert sorted(numbers) == [1, 2, 3, errors - 2, errors - 1, errors]


def test_the_case_of_the_field_names_both_variables(fail: Fail) -> None:
    box = fail("failing.py", "assigned").box
    analysis = analysis_of(box.moment)
    assert analysis is not None
    assert check_sums(box)[Category.OTHER] == 2 * GIB
    assert [(holder.name.partition(" ")[0], holder.bytes) for holder in analysis.tensors] == [("a", GIB), ("c", GIB)]
    assert [remedy.kind for remedy in analysis.remedies] == ["assigned_again", "variables"]
    assert all(remedy.is_enough for remedy in analysis.remedies)


def test_a_long_list_and_a_hidden_model_are_named_too(fail: Fail) -> None:
    box = fail("failing.py", "many").box
    sums = check_sums(box)
    assert sums[Category.PARAMETER] >= 8 * 64 * MIB
    assert sums[Category.OTHER] == 6000 * 64 * 1024


def test_an_error_in_a_compiled_function_compiles_nothing_of_the_probe(fail: Fail) -> None:
    ended, without = fail("failing.py", "compiled"), fail("failing.py", "compiled", folder="")
    assert ended.output == without.output
    check_sums(ended.box)


@pytest.mark.every_torch
def test_an_error_that_ends_a_thread_names_the_file_after_its_traceback(fail: Fail) -> None:
    ended = fail("failing.py", "thread")
    box = ended.box
    assert (ended.status, ended.output) == (0, "the program goes on\n")
    assert ended.errors.splitlines()[-1] == LAST_LINE.format(ended.boxes[0])
    assert (box.failure.thread, box.moment.ended) == ("trainer", None)
    assert box.failure.requested_bytes == requested_bytes_in(box.failure.message)
    assert line_of("thread") in {site.line for site in box.failure.stack}
    check_sums(box)
    check_as_without(ended, fail("failing.py", "thread", folder=""))


def test_a_line_that_cannot_be_made_adds_no_traceback_to_that_of_a_thread(fail: Fail) -> None:
    ended = fail("failing.py", "speechless")
    assert (ended.status, ended.output) == (0, "the program goes on\n")
    assert ended.errors.count("Traceback") == 1
    check_sums(ended.box)
    check_as_without(ended, fail("failing.py", "speechless", folder=""))


def test_errors_of_several_threads_at_once_all_reach_the_program(fail: Fail) -> None:
    ended = fail("failing.py", "threads")
    assert (ended.status, ended.output) == (0, "caught 80\n")
    assert 1 <= len(ended.boxes) <= 6


AFTERWARDS = {
    # case: (who asked, bytes known from the text, the function that failed, remedies, words of the first sentence)
    "pinned": ("pinned host memory", 0, "pinned", ["pinned"], "a request for pinned host memory failed"),
    "loader": ("pinned host memory", 0, "loader", [], "a request for pinned host memory failed"),
    "cublas": ("cuBLAS", 0, "cublas", ["cache", "variables"], "a request of cuBLAS failed"),
    "nccl": ("NCCL", 8 * MIB, "barrier", ["variables"], "a request of 8.0 MiB of NCCL failed"),
}


@pytest.mark.every_torch
@pytest.mark.parametrize("case", AFTERWARDS)
def test_errors_of_others_than_the_allocator_are_kept_when_they_end_the_program(fail: Fail, case: str) -> None:
    asked_by, size_bytes, function, kinds, words = AFTERWARDS[case]
    ended = fail("failing.py", case)
    box = ended.box
    check_sums(box)
    analysis = analysis_of(box.moment)
    assert ended.status == 1
    assert ended.errors.splitlines()[-1] == LAST_LINE.format(ended.boxes[0])
    assert analysis is not None
    assert analysis.place is not None
    assert (box.failure.asked_by, box.failure.requested_bytes) == (asked_by, size_bytes)
    assert any((site.line, site.function) == (line_of(case), function) for site in box.failure.stack)
    if value_of(box.moment.host.pinned_bytes) is None:  # as in PyTorch 2.4
        kinds = [kind for kind in kinds if kind != "pinned"]
    assert [remedy.kind for remedy in analysis.remedies] == kinds
    assert words in headline(box.failure, analysis)
    assert "looked after the error had ended the program" in " ".join(place_sentences(box.failure, analysis))
    assert not any("exception" in holder.name for holder in analysis.tensors)
    check_as_without(ended, fail("failing.py", case, folder=""))


def test_an_error_that_is_not_of_memory_leaves_nothing(fail: Fail) -> None:
    ended = fail("failing.py", "another")
    assert (ended.status, ended.boxes, words_of_gputui(ended.errors)) == (1, (), [])


def check_only_the_last_line_is_added(ended: Failed) -> None:
    *_, error, last = ended.errors.splitlines()
    assert (ended.status, ended.output) == (1, "")
    assert error.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert last.startswith("gputui: what held the GPU memory could not be kept: ")


def test_a_folder_that_cannot_be_made_changes_nothing(fail: Fail, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_only_the_last_line_is_added(fail("failing.py", "forward", folder=str(tmp_path / "file" / "below")))


def test_a_full_disk_leaves_no_file_and_changes_nothing(fail: Fail) -> None:
    ended = fail("limited.py", "forward")
    assert ended.boxes == ()
    check_only_the_last_line_is_added(ended)
