"""`gputui check --mesh`: ranks in several dimensions, stages of a pipeline, and other meshes in the plan."""

from __future__ import annotations

import json

import pytest

from gputui.cli import main
from gputui.errors import UsageError
from gputui.explain.check.target import Target, over_mesh, target_of
from gputui.explain.check.variants import of_all_stages, tried
from tests.check.conftest import PROGRAMS

WIDTH, LAYERS = 256, 2
WEIGHTS = LAYERS * 4 * WIDTH * WIDTH * 2
BIASES = LAYERS * 5 * WIDTH
OVER_MESH = over_mesh(Target("train", "train:setup", {"batch": 8}), "dp=4,tp=2")


def targets_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict]:
    assert main(["check", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])["targets"]


def bytes_of(target: dict, category: str) -> int:
    return sum(holder["bytes"] for holder in target["holders"] if holder["category"] == category)


@pytest.mark.every_torch
def test_a_function_is_given_the_mesh_and_the_plan_tries_others(forked, torch_path, monkeypatch, capsys):
    monkeypatch.chdir(PROGRAMS)
    words = ["--python", torch_path, "mesh:setup", "--budget", "1GiB", "--mesh", "dp=2,tp=2", "--plan"]
    tries = ["--try", "batch=16", "--try", "dp=2,tp=4,checkpointing=true"]
    (target,) = targets_of(capsys, *words, *tries)
    assert bytes_of(target, "optimizer_state") == pytest.approx(8 * (WEIGHTS + BIASES) / 4, rel=0.05)
    rows = {row["label"]: row for row in target["plan"]}
    *_, larger, other = rows
    assert (larger, other) == ("batch=16", "dp=2,tp=4,checkpointing=true")
    assert rows[larger]["peak_reserved_bytes"] > rows["as written"]["peak_reserved_bytes"]
    assert rows[larger]["largest_batch"] == pytest.approx(rows["as written"]["largest_batch"], rel=0.1)
    assert rows[other]["peak_reserved_bytes"] < rows["as written"]["peak_reserved_bytes"]


@pytest.mark.every_torch
def test_each_stage_of_a_pipeline_is_told_what_the_one_before_gives(forked, torch_path, capsys):
    targets = targets_of(capsys, "--python", torch_path, "--mesh", "pp=3", "--run", str(PROGRAMS / "mesh.py"))
    assert [target["name"].rpartition(", ")[2] for target in targets] == [f"stage {n} of 3" for n in (1, 2, 3)]
    states = [bytes_of(target, "optimizer_state") for target in targets]
    assert states == pytest.approx([8 * (8 + 0.5) * (WIDTH >> n) ** 2 for n in range(3)], rel=0.1)


def test_a_stage_is_not_rehearsed_without_what_the_one_before_gives(forked, torch_path, capsys):
    words = ["check", "--python", torch_path, "--mesh", "pp=2", "--budget", "1GiB"]
    program = ["--run", str(PROGRAMS / "mesh.py")]
    skipped = "It was not rehearsed: its input comes from the stage before, which failed."
    assert main([*words, *program, "stop"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "stage 1 of 2: " in captured.err
    assert f"stage 2 of 2: {skipped}" in captured.err
    assert main([*words, "--try", "stop", *program]) == 2
    captured = capsys.readouterr()
    assert "stage 2 of 2 needs " in captured.out
    assert f"stage 2 of 2, stop: {skipped}" in captured.err


@pytest.mark.quick
def test_the_first_rank_of_each_stage_is_rehearsed():
    stages = of_all_stages(over_mesh(Target("train"), "dp=2,pp=4,tp=8"))
    assert [(stage.world_size, stage.rank) for stage in stages] == [(64, 0), (64, 8), (64, 16), (64, 24)]
    assert of_all_stages(OVER_MESH) == [OVER_MESH]


@pytest.mark.quick
def test_what_is_tried_are_arguments_sizes_of_the_mesh_or_words():
    other = tried(OVER_MESH, "tp=4, batch=16, precision=bf16, whole=True")
    assert (dict(other.mesh), other.world_size) == ({"dp": 4, "tp": 4}, 16)
    assert dict(other.arguments) == {"batch": 16, "precision": "bf16", "whole": True}
    stage = of_all_stages(over_mesh(Target("train"), "pp=2,tp=2"))[1]
    assert tried(stage, "tp=4").rank == 4
    program = Target("train.py", program=("train.py", "--lr", "1"))
    assert tried(program, "--batch 16").program == ("train.py", "--lr", "1", "--batch", "16")


@pytest.mark.quick
def test_the_table_has_a_mesh_and_what_is_tried():
    target = target_of({"function": "train:setup", "mesh": "dp=4,tp=2", "tries": ["dp=8,tp=1"]})
    assert (target.world_size, target.tries) == (8, ("dp=8,tp=1",))


MISTAKES = {
    "no size": (lambda: over_mesh(OVER_MESH, "dp"), "A mesh cannot be 'dp'. Write its dimensions"),
    "twice": (lambda: over_mesh(OVER_MESH, "dp=2,dp=4"), "A mesh cannot be 'dp=2,dp=4'."),
    "nothing": (lambda: over_mesh(OVER_MESH, "dp=0"), "A mesh cannot be 'dp=0'."),
    "another job": (lambda: over_mesh(OVER_MESH, "dp=4"), "A mesh of dp=4 has 4 ranks, and the job 8."),
    "too many": (lambda: over_mesh(Target("train"), "dp=4096,tp=4096"), "A job cannot have 16777216 ranks."),
    "no value": (lambda: tried(OVER_MESH, "batch"), "'batch' is no change of arguments."),
    "half a quote": (lambda: tried(Target("t", program=("t.py",)), "--name 'my"), "has no other half."),
    "half a quote in the table": (lambda: target_of({"run": "t.py 'my"}), "has no other half."),
    "other stages": (lambda: tried(over_mesh(Target("train"), "pp=4"), "pp=2"), "Ask for it by itself: --mesh pp=2."),
}


@pytest.mark.quick
@pytest.mark.parametrize(("ask", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_sentence(ask, sentence):
    with pytest.raises(UsageError) as raised:
        ask()
    assert sentence in str(raised.value)
