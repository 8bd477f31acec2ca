"""What a library writes to descriptors 1 and 2 reaches neither the terminal nor a document, nor a report."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, FakeGpus
from tests.hanging import HANGS_S
from tests.terminal.conftest import GPUTUI, Open

CHATTER = "words of a library"
STUBBED = "This libnvidia-ml.so.1 is the CUDA toolkit's stub, which only serves to link programs: {path}."


def gputui(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputui", *arguments],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.fixture
def talkative(fake_gpus: FakeGpus) -> dict[str, str]:
    """GPUs whose library writes whenever it is called."""
    return {**fake_gpus.environment, "FAKEGPU_CHATTER": CHATTER}


@pytest.fixture
def stub(fake_gpus: FakeGpus) -> dict[str, str]:
    """The toolkit's stub where the driver's library should be."""
    return {**fake_gpus.environment, "LD_LIBRARY_PATH": str(fake_gpus.library_folder / "stubs")}


@pytest.mark.parametrize(
    "arguments", [("--once",), ("--once", "--json"), ("doctor",), ("attach",), ("attach", "1", "--once")], ids=" ".join
)
def test_no_word_of_a_library_is_in_what_is_printed(talkative: dict[str, str], arguments: tuple[str, ...]) -> None:
    printed = gputui(*arguments, environment=talkative)
    assert CHATTER not in printed.stdout + printed.stderr
    assert printed.stdout + printed.stderr
    if "--json" in arguments:
        assert len(json.loads(printed.stdout)["devices"]) == 2


def test_the_library_does_write(talkative: dict[str, str]) -> None:
    code = "from gputui.sources.nvml import NvmlSource; NvmlSource().read()"
    printed = subprocess.run(
        [sys.executable, "-c", code], env=talkative, capture_output=True, text=True, timeout=HANGS_S, check=True
    )
    assert CHATTER in printed.stdout
    assert CHATTER in printed.stderr


def test_no_word_of_a_library_is_on_the_screen(terminal: Open, talkative: dict[str, str]) -> None:
    session = terminal(f"exec {GPUTUI}", **talkative)
    session.wait_for("Help")
    session.wait_for("H100")
    session.send("q")
    assert session.end() == 0, session.text
    assert CHATTER.encode() not in session.output


def test_the_toolkits_stub_is_called_by_its_name(stub: dict[str, str], fake_gpus: FakeGpus) -> None:
    sentence = STUBBED.format(path=fake_gpus.library_folder / "stubs" / "libnvidia-ml.so.1")
    printed = gputui("--once", "--json", environment=stub)
    assert printed.returncode == 1
    assert printed.stderr == ""
    (problem,) = json.loads(printed.stdout)["problems"]
    assert problem == (
        f"{sentence} Take its folder out of LD_LIBRARY_PATH and /etc/ld.so.conf.d; the driver's own library comes with "
        "the driver."
    )
    told = gputui("doctor", environment={**stub, "HOME": "/nobody's", "USER": "", "LOGNAME": ""})  # it names no person
    assert sentence in " ".join(told.stdout.split())


def test_the_stubs_banner_is_not_on_the_screen(terminal: Open, stub: dict[str, str]) -> None:
    session = terminal(f"exec {GPUTUI}", size=(120, 40), **stub)
    session.wait_for("toolkit's stub")
    session.send("q")
    assert session.end() == 0
    assert b"GDK package" not in session.output


@pytest.mark.parametrize("closed", ["2>&-", "</dev/null", "1>/dev/full 2>&1"])
def test_a_descriptor_that_is_closed_stays_without_words(talkative: dict[str, str], closed: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m gputui --once --json {closed}"
    printed = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**talkative, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )
    assert CHATTER.encode() not in printed.stdout + printed.stderr
    assert printed.returncode == (1 if "full" in closed else os.EX_OK)


@pytest.mark.parametrize("folder", ["run/opengl-driver/lib", "usr/lib/wsl/lib"])
def test_the_library_is_found_where_the_loader_does_not_look(fake_gpus: FakeGpus, tmp_path: Path, folder: str) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    place.joinpath("libnvidia-ml.so.1").write_bytes((fake_gpus.library_folder / "libnvidia-ml.so.1").read_bytes())
    code = (
        "from gputui.sources.nvml import NvmlSource, library; import sys; root = sys.argv[1]; "
        "library.FOLDERS = tuple(root + folder for folder in library.FOLDERS); "
        "look = NvmlSource().read(); print(look.problem, len(look.devices))"
    )
    environment = {name: value for name, value in fake_gpus.environment.items() if name != "LD_LIBRARY_PATH"}
    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert printed.stdout.strip() == "None 2", printed.stderr
