"""`gputui whatif FILE`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputui.cli import main

SNAPSHOTS = Path(__file__).parents[1] / "data" / "snapshots"
HISTORY = str(SNAPSHOTS / "history-2.11.pickle")
MIB = 1024**2


@pytest.mark.parametrize("version", ["2.1", "2.4", "2.8", "2.11", "2.15"])
def test_snapshots_of_every_version_are_replayed(capsys, version):
    assert main(["whatif", str(SNAPSHOTS / f"history-{version}.pickle")]) == 0
    first, _, headings, recorded, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("at its peak.")
    assert headings.split() == ["case", "peak", "reserved", "change", "peak", "allocated", "known"]
    assert recorded.startswith("as recorded")
    assert recorded.endswith("exact")


def test_the_document_has_the_cases_in_the_order_asked_for(capsys):
    asked = ["--batch", "16:32", "--set", "expandable_segments:True", "--set", "max_split_size_mb:64"]
    assert main(["whatif", HISTORY, *asked, "--device-memory", "1GiB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gputui.whatif/1"
    assert document["baseline"]["peak_reserved_bytes"] == 34 * MIB
    cases = [(case["batch"], case["settings"]) for case in document["cases"]]
    expandable, split = {"expandable_segments": "True"}, {"max_split_size_mb": "64"}
    assert cases == [(32, {}), (None, expandable), (None, split), (32, expandable), (32, split)]
    assert [case["known"] for case in document["cases"]] == ["scaled", "exact", "exact", "scaled", "scaled"]
    assert document["cases"][1]["peak_reserved_bytes"] == 42 * MIB
    assert document["largest_batch"] > 32


def test_a_device_that_is_too_small_runs_out_of_memory(capsys):
    assert main(["whatif", HISTORY, "--set", "expandable_segments:True", "--device-memory", "20MiB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cases"][0]["out_of_memory"] is True
    assert document["baseline"]["out_of_memory"] is False


WRONG = {
    "an unknown setting": (["--set", "expandable_segment:True"], "Did you mean expandable_segments?"),
    "a value that is none": (["--set", "expandable_segments:yes"], "It is True or False."),
    "a setting without a value": (["--set", "max_split_size_mb"], "Write NAME:VALUE"),
    "a batch without its other": (["--batch", "8"], "such as 4:16"),
    "a size without a number": (["--device-memory", "big"], "24GiB"),
}


@pytest.mark.parametrize(("words", "remedy"), WRONG.values(), ids=WRONG)
def test_wrong_words_get_a_sentence(capsys, words, remedy):
    assert main(["whatif", HISTORY, *words]) == 2
    assert remedy in capsys.readouterr().err


def test_a_file_without_a_trace_says_how_to_record_one(capsys):
    assert main(["whatif", str(SNAPSHOTS / "plain-2.11.pickle")]) == 2
    assert "_record_memory_history" in capsys.readouterr().err


def test_what_a_sample_costs_is_the_slope_between_the_rows_of_the_table(capsys):
    assert main(["whatif", HISTORY, "--batch", "16:32", "--device-memory", "80MiB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (case,) = document["cases"]
    grown = case["peak_allocated_bytes"] - document["baseline"]["peak_allocated_bytes"]
    assert document["bytes_per_sample"] == grown // 16 > 0
    assert document["largest_batch_peak_reserved_bytes"] <= 80 * MIB
    assert (document["largest_batch_without_retries"] < document["largest_batch"]) == (
        document["largest_batch_retries"] > 0
    )
