"""`gputui attach PID --once`: the report for people, of real programs and of hand-made moments."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gputui.commands.printed.attach import report
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.tensors import Category
from gputui.model.reading import Problem
from gputui.units import GIB, MIB
from tests import torches
from tests.attach.children import Python
from tests.attach.command import attach
from tests.attach.small_training import FOR_EVER, TRAINING
from tests.explain.moments import Tensor, moment, row

GPT = Path(__file__).parent / "programs" / "gpt.py"
SECTIONS = re.compile(r"^(Memory of cuda:\d|Why|Tensors on (cuda:\d|the host)|This look)", re.MULTILINE)


def sections_of(text: str) -> list[str]:
    return [match[0] for match in SECTIONS.finditer(text)]


def row_bytes(text: str, name: str) -> float:
    """The bytes of a part in the memory section."""
    units = {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB}
    found = re.search(rf" {name}:? +([\d.]+) (B|KiB|MiB|GiB)\b", text)
    assert found, f"no row {name}\n{text}"
    return float(found[1]) * units[found[2]]


def test_the_report_of_a_training_loop_fits_a_log_file(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + FOR_EVER, RANK="3", WORLD_SIZE="8")
    device = child.expect("ready")
    variables = {name: torch_python.environment.get(name, "") for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, output, errors = attach(str(child.pid), "--once", environment={**variables, "COLUMNS": ""})
    assert (status, errors) == (0, "")
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    first, second = output.splitlines()[:2]
    summary = next(line for line in output.splitlines() if line.startswith("cuda:0  "))
    assert first.startswith(f"{child.pid}  rank 3 of 8  ")
    assert re.search(r"The program paused for [\d.]+ ms; the probe used [\d.]+ ms of processor time\.", output)
    assert "Host memory: " in output
    if device == "cpu":
        assert second == "It holds no GPU memory."
        assert sections_of(output) == ["Tensors on the host", "This look"]
        assert re.search(r"KiB  model\.\*\.weight +2 x parameter, 2 shapes", output)
        return
    assert second.startswith("Most memory is outside PyTorch (CUDA context, libraries): 518 MiB, 94% of what")
    assert re.match(r"cuda:0  [\d.]+ MiB used: 518 MiB outside PyTorch, [\d.]+ MiB tensors", summary)
    assert sections_of(output) == ["Memory of cuda:0", "Why", "Tensors on cuda:0", "This look"]
    outside, reserved = row_bytes(output, "x outside PyTorch"), row_bytes(output, "Reserved by PyTorch")
    assert float(summary.split()[1]) * MIB == pytest.approx(outside + reserved, abs=MIB)
    assert row_bytes(output, "P parameters") == row_bytes(output, "G gradients") == pytest.approx(73 * 1024, abs=512)
    assert re.search(r"model\.\*\.weight +2 x parameter, 2 shapes", output)
    assert "device 1" not in output


def test_the_first_lines_of_a_fragmented_program_say_what_holds_its_memory(
    cuda_path: str, tmp_path: Path, sockets: Path
) -> None:
    environment = torches.fake_cuda(cuda_path, tmp_path, memory_gib=8.0)
    python = Python(cuda_path, tmp_path, environment)
    child = python.fork(GPT, "fragment")
    child.expect("ready")
    variables = {name: environment[name] for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    output = attach(str(child.pid), "--once", environment={**variables, "COLUMNS": ""})[1]
    python.end()
    assert re.search(r"^cuda:0  [\d.]+ GiB used: [\d.]+ [MG]iB (stuck|tensors|releasable), ", output, re.MULTILINE)
    why = " ".join(output.partition("\nWhy\n")[2].partition("\nTensors")[0].split())
    assert re.search(r"! Fragmentation: \d+ large segments are held by small blocks, with [\d.]+ [MG]iB stuck in", why)
    assert re.search(r"> Start the program with \S+expandable_segments:True: ", why)
    assert row_bytes(output, "s stuck") > 0
    assert re.search(r"^ +[\d.]+ [MG]iB  model\.features\[\*\] +\d+ x tensor, \d+ shapes$", output, re.MULTILINE)
    assert max(map(len, output.splitlines())) <= 80


WEIGHTS = [Tensor(8, f"model.h.{layer}.fc.weight", Category.PARAMETER) for layer in range(4)]
CACHES = [Tensor(2, f"cache.layers[{layer}].keys", Category.KV_CACHE) for layer in range(4)]


def two_devices() -> TargetMoment:
    """A process that has run out of memory on its second device."""
    made = moment(row(*WEIGHTS, *CACHES, free=80), used_mib=400)
    (first,) = made.devices
    full = replace(first.statistics, device=1, reserved_bytes=64 * MIB, num_ooms=2)
    driver = replace(first.driver, nvml_index=1)
    second = replace(first, index=1, statistics=full, layout=None, room=None, driver=driver)
    return replace(made, devices=(first, second))


def test_with_two_devices_each_has_a_summary_and_findings_name_theirs():
    lines = report(two_devices(), [], 80, in_color=False).splitlines()
    assert lines[1].startswith("cuda:0: Most of PyTorch's memory is free in its cache: 80.0 MiB, 20% of what")
    first = next(number for number, line in enumerate(lines) if line.startswith("cuda:0  "))
    assert lines[first].startswith("cuda:0  400 MiB used: 280 MiB outside PyTorch, 80.0 MiB stuck, 40.0 MiB tensors")
    assert lines[first + 1].startswith("cuda:1  400 MiB used: ")
    assert lines[first - 1] == " ! cuda:1: Out of memory: an allocation failed 2 times."


def test_names_that_differ_only_in_numbers_are_one_line():
    text = report(moment(row(*WEIGHTS, *CACHES)), [], 80, in_color=False)
    assert re.search(r"^ +32\.0 MiB  model\.h\.\*\.fc\.weight +4 x \(2097152,\) float32 parameter$", text, re.MULTILINE)
    assert re.search(r"^ +8\.0 MiB  cache\.layers\[\*\]\.keys +4 x \(524288,\) float32 KV cache$", text, re.MULTILINE)
    assert row_bytes(text, "KV cache") == 8 * MIB


def test_activations_are_named_with_their_module():
    saved = row(*(Tensor(4, "self of GeluBackward0", saved_by="GeluBackward0") for _ in range(3)))
    storages = [replace(storage, module=f"model.h.{layer}.act") for layer, storage in enumerate(saved[1])]
    text = report(moment((saved[0], storages)), [], 80, in_color=False)
    assert "12.0 MiB  model.h.*.act: self of GeluBackward0\n" in text


def test_without_nvml_the_summary_is_of_reserved_memory():
    lines = report(moment(row(*WEIGHTS, free=80)), [], 80, in_color=False).splitlines()
    assert lines[1] == "Most of PyTorch's memory is free in its cache: 80.0 MiB, 71% of what PyTorch has"
    assert "cuda:0  112 MiB reserved: 80.0 MiB stuck, 32.0 MiB tensors" in lines
    assert "  What the process uses on cuda:0 is not known: NVML was not asked." in lines


def test_a_figure_of_nvml_that_contradicts_pytorch_is_left_out_with_its_reason():
    text = " ".join(report(moment(row(*WEIGHTS), used_mib=1), [], 80, in_color=False).split())
    assert "cuda:0 32.0 MiB reserved: 32.0 MiB tensors" in text
    assert (
        "outside PyTorch on cuda:0 is not known: NVML's figure for the process (1.0 MiB) is below what PyTorch" in text
    )


def test_colours_are_for_terminals():
    plain, coloured = (report(two_devices(), [], 80, in_color=in_color) for in_color in (False, True))
    assert "\x1b" not in plain
    assert "\x1b[1;31m ! cuda:1: Out of memory" in coloured
    written = re.sub(r"\x1b\[[\d;]*m", "", coloured).splitlines()
    assert [line.rstrip() for line in written] == plain.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_page(width):
    long_name = Tensor(4, f"model.{'very_long_name.' * 20}weight", Category.PARAMETER)
    made = replace(moment(row(long_name, free=80), used_mib=400), problems=(Problem("word " * 60), Problem("x" * 300)))
    made = replace(made, greeting=replace(made.greeting, command=f"/usr/bin/python {'a' * 300}"))
    assert max(map(len, report(made, ["hint " * 60], width, in_color=False).splitlines())) <= min(width, 100)


def test_the_interpreter_is_shown_without_its_folder():
    made = moment(row(*WEIGHTS))
    made = replace(
        made, greeting=replace(made.greeting, command="/opt/conda/envs/train/bin/python train.py --epochs 3")
    )
    assert report(made, [], 80, in_color=False).splitlines()[0] == "7  train.py --epochs 3"
