"""`gputui open` as a person uses it: what it prints of each kind of file, and what it says of others."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.cli import main
from tests.hanging import HANGS_S
from tests.opening.test_torch_snapshot import FILES
from tests.recording.made import job


def opened(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["open", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_a_snapshot_is_printed_by_line_of_code(capsys):
    status, output, errors = opened(capsys, FILES["field-2.11"])
    assert (status, errors) == (0, "")
    assert output.startswith(
        "snapshot field-2.11.pickle\n"
        "Most of PyTorch's memory is held by blocks allocated at snapshots/make.py:36\n"
        "(field): 2.0 GiB, 50% of what PyTorch has reserved.\n"
    )
    assert "\ncuda:0  4.0 GiB reserved: 2.0 GiB tensors, 2.0 GiB releasable\n" in output
    assert (
        "Tensors on cuda:0: 2.0 GiB, by the line that allocated it\n    2.0 GiB  snapshots/make.py:36 (field) "
        in output
    )
    assert "Taken at " in output
    assert opened(capsys, FILES["field-2.11"], "--once") == (0, output, "")


SEEDS = {
    # `x`, `y = 5 * x`, then the gradients of `y` and `x` in backward
    "mean-2.11": (
        "Peak 12.0 GiB in backward",
        ["backward (no Python line)  (23 - stays)", "backward (no Python line)  (21 - 24)",
         "snapshots/make.py:42 in mean  (2 - stays)", "snapshots/make.py:43 in mean  (4 - stays)"],
        ["3.0 GiB"] * 4,
    ),
    # `a`, `c`, and the second `c`, which exists before the first one goes
    "field-2.11": (
        "Peak 4.0 GiB in forward",
        ["snapshots/make.py:36 in field  (6 - stays)", "snapshots/make.py:33 in field  (2 - 9)",
         "snapshots/make.py:35 in field  (4 - 7)"],
        ["2.0 GiB", "1.0 GiB", "1.0 GiB"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDS)
def test_the_seeds_of_the_field_show_their_peak_with_its_holders(name, capsys):
    peak, holders, sizes = SEEDS[name]
    section = opened(capsys, FILES[name], "--once")[1].split("The recorded trace of cuda:0\n")[1].split("\n\n")[0]
    rows = [line.split() for line in section.splitlines() if "GiB  " in line]
    assert section.lstrip().startswith(peak)
    assert [" ".join(row[:2]) for row in rows] == sizes
    assert all(holder in section for holder in holders)


def test_the_error_at_the_end_of_a_snapshot_is_explained(capsys):
    output = opened(capsys, FILES["failure-2.4"])[1]
    assert "! Out of memory: 4.0 TiB asked for, 3.9 TiB more than was free.\n" in output
    assert "Device 0 had 7" in output
    assert "In the thread ." not in output


def test_a_snapshot_is_one_document(capsys):
    status, output, _ = opened(capsys, FILES["failure-2.15"], "--once", "--json")
    document = json.loads(output)
    assert (status, document["schema"], document["pid"], document["cost"]) == (0, "gputui.attach/1", None, None)
    (device,) = document["devices"]
    assert device["allocator"]["allocated_bytes"] == sum(device["tensors"]["by_category"].values()) == 3 << 30
    assert [group["names"] for group in device["tensors"]["groups"]] == [["snapshots/make.py:49 (<listcomp>)"]]
    assert document["failure"]["requested_bytes"] == 4 << 40
    assert (document["failure"]["device_total_bytes"], document["failure"]["thread"]) == (None, None)


def test_a_recording_is_opened_by_both_names(capsys, tmp_path):
    path = job(12).write(tmp_path / "job")
    lines = opened(capsys, path)
    assert lines[0] == 0
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr() == lines[1:]
    status, output, _ = opened(capsys, path, "--once", "--json")
    assert (status, json.loads(output)["pid"]) == (0, 7)
    assert "Memory of cuda:0" in opened(capsys, path, "--once")[1]


def checkpoint(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(100))


WRONG = {
    "missing": (lambda path: None, 1, "cannot be read: No such file or directory. gputui opens "),
    "a folder": (lambda path: path.mkdir(), 1, "cannot be read: Is a directory. gputui opens "),
    "empty": (lambda path: path.touch(), 1, "is empty. gputui opens "),
    "a text": (lambda path: path.write_text("import torch\n"), 1, "is not a file that gputui opens. gputui opens "),
    "a checkpoint": (checkpoint, 1, "is a zip archive, as torch.save() writes checkpoints. gputui opens "),
    "compressed": (lambda path: path.write_bytes(b"\x1f\x8b\x08"), 1, "is compressed by gzip: decompress it first. "),
    "a pickled object": (
        lambda path: path.write_bytes(pickle.dumps(Path("x"))),
        1,
        "is not a snapshot of PyTorch's: it holds objects, not only numbers and texts. Name a file written by ",
    ),
    "a cut snapshot": (
        lambda path: path.write_bytes(FILES["history-2.11"].read_bytes()[:9000]),
        1,
        "is not a snapshot of PyTorch's: it was cut off. Name a file written by ",
    ),
    "another pickle": (
        lambda path: path.write_bytes(pickle.dumps({"model": 1})),
        1,
        "is a pickle, but not a snapshot of PyTorch's: in it, there are no segments. Name a file written by ",
    ),
}


@pytest.mark.parametrize("arguments", [[], ["--once"], ["--once", "--json"]], ids=["plain", "once", "json"])
@pytest.mark.parametrize(("make", "status", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_gets_one_sentence_with_a_remedy(make, status, words, arguments, capsys, tmp_path):
    path = tmp_path / "file"
    make(path)
    assert opened(capsys, path, *arguments)[:2] == (status, "")
    main(["open", str(path), *arguments])
    errors = capsys.readouterr().err
    assert errors.startswith(f"gputui: {path} {words}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("path", "typed"), [("x", "x"), ("my jobs/x", "'my jobs/x'")], ids=["a path", "a space"])
def test_json_without_once_is_refused_with_words_for_a_shell(capsys, path, typed):
    sentence = f"gputui: --json needs --once. Use gputui open {typed} --once --json.\n"
    assert opened(capsys, path, "--json") == (2, "", sentence)


def test_a_large_file_shows_a_bar_and_ctrl_c_ends_it(tmp_path):
    path = tmp_path / "large.pickle"
    path.write_bytes(b"\x80\x04" + (b"\x95" + bytes(8)) * 8_000_000)
    own, its = pty.openpty()
    command = [sys.executable, "-m", "gputui", "open", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its, start_new_session=True) as process:
        os.close(its)
        text = b""
        while b"Ctrl-C stops" not in text:
            text += os.read(own, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS_S) == 130
        assert b"Reading 68.7 MiB [" in text
        with contextlib.suppress(OSError):  # the end of what a terminal that nobody has open any more holds
            while True:
                text += os.read(own, 4096)
        assert text.endswith(b"\r\x1b[K")
        assert process.stdout.read() == b""
    os.close(own)
